//! How it is called and how it ends.

use std::os::unix::fs::symlink;

use serde_json::json;

use super::{srt, with};
use crate::case::{as_everybody, has_tool, ordinary, program};

#[test]
fn under_the_name_srt_it_is_srt() {
    as_everybody(|case| {
        let link = case.root.join("srt");
        symlink(program(), &link).unwrap();
        // `sh` puts the link in place of the program that stands behind it.
        let call = |args: &str| {
            let script = format!("shift; exec {} {args}", link.display());
            case.lazaret::<&str>([]).under(["sh", "-c", &script, "sh"]).go()
        };
        call("-c 'echo hi; exit 7'").exits(7).prints("hi");
        call("").exits(1).tells("No command specified");
        call("--no-such-flag").exits(1);
        call("--help").exits(0);
        case.file(case.home.join(".srt-settings.json"), "{");
        call("-c 'echo ran'").exits(1).prints("").tells(".srt-settings.json:1:1");
    });
}

#[test]
fn in_a_container_it_runs_weaker_only_when_the_settings_say_so() {
    if !has_tool("unshare") || !has_tool("setpriv") {
        return;
    }
    let case = ordinary();
    case.file("sec/key", "topsecret");
    case.file("plain", "plain");
    let uid = case.who.uid();
    let go = |weaker: bool, script: &str| {
        let mut settings = with(&json!({}), &json!({ "denyRead": ["sec"], "allowWrite": ["."] }));
        settings["enableWeakerNestedSandbox"] = json!(weaker);
        let refuse = "echo 0 > /proc/sys/user/max_user_namespaces && \
                      exec setpriv --inh-caps=-all --ambient-caps=-all --bounding-set=-all \"$@\"";
        let (user, group) = (format!("--map-user={uid}"), format!("--map-group={uid}"));
        srt(&case, &settings, ["-c", script])
            .under(["unshare", "-U", &user, &group, "--keep-caps", "sh", "-c", refuse, "sh"])
            .go()
    };
    go(false, "echo ran").exits(1).prints("").tells("user namespaces are refused");
    let outcome = go(
        true,
        "cat plain; ls >/dev/null && mkdir made; cat sec/key; mv sec s2; cat s2/key; echo x > .bashrc; \
         echo x > ../out; echo x > new; cat new",
    );
    assert!(case.work.join("made").is_dir() && case.work.join("new").is_file(), "{outcome:?}");
    assert!(outcome.out().contains("plain") && !outcome.out().contains("topsecret"), "{outcome:?}");
    assert!(!case.work.join(".bashrc").exists() && !case.root.join("out").exists(), "{outcome:?}");
    assert!(outcome.stderr.contains("weaker"), "{outcome:?}");
}
