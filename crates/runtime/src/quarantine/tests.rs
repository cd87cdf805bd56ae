use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

/// A state directory that vanishes with the test.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("lazaret-quarantine-{}", uuid::Uuid::now_v7()));
        fs::create_dir_all(&path).unwrap();
        Dir(path)
    }

    fn state(&self) -> PathBuf {
        self.0.join("state").join("lazaret")
    }

    fn quarantine(&self) -> Quarantine {
        Quarantine::open(self.state())
    }

    fn file(&self) -> PathBuf {
        self.state().join(FILE)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn entry(key: &str) -> Entry {
    Entry {
        key: key.to_owned(),
        since: 1000,
        sandbox_id: "s1".to_owned(),
        reason: "mount".to_owned(),
        bundle: None,
        count: 1,
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn where_nothing_was_barred_nothing_is_found_and_nothing_is_made() {
    let dir = Dir::new();
    let quarantine = dir.quarantine();
    assert_eq!(quarantine.check("a").unwrap(), None);
    assert_eq!(quarantine.list().unwrap(), []);
    assert_eq!(quarantine.release("a").unwrap(), None);
    assert!(!dir.state().exists());
}

#[test]
fn what_was_barred_is_found_until_it_is_released() {
    let dir = Dir::new();
    let quarantine = dir.quarantine();
    quarantine.add(entry("/usr/bin/python3.11")).unwrap();
    quarantine.add(entry("a\nb\u{0}\"\\")).unwrap();
    assert_eq!(quarantine.check("/usr/bin/python3.11").unwrap(), Some(entry("/usr/bin/python3.11")));
    assert_eq!(quarantine.check("/usr/bin/python3").unwrap(), None);
    assert!(quarantine.check("a\nb\u{0}\"\\").unwrap().is_some());
    let keys: Vec<String> = quarantine.list().unwrap().into_iter().map(|entry| entry.key).collect();
    assert_eq!(keys, ["/usr/bin/python3.11", "a\nb\u{0}\"\\"]);
    assert_eq!(quarantine.release("other").unwrap(), None);
    assert!(quarantine.release("/usr/bin/python3.11").unwrap().is_some());
    assert_eq!(quarantine.check("/usr/bin/python3.11").unwrap(), None);
    assert_eq!(quarantine.list().unwrap().len(), 1);
}

#[test]
fn only_the_owner_can_read_what_is_written() {
    let dir = Dir::new();
    dir.quarantine().add(entry("a")).unwrap();
    assert_eq!((mode(&dir.state()), mode(&dir.file())), (0o700, 0o600));
    assert_eq!(mode(&dir.state().join(LOCK)), 0o600);
    assert!(!dir.state().join(NEXT).exists());
}

#[test]
fn another_attempt_adds_to_the_count_and_keeps_the_first_time() {
    let dir = Dir::new();
    let quarantine = dir.quarantine();
    quarantine.add(Entry { bundle: Some("/b1".into()), ..entry("a") }).unwrap();
    let again = Entry { since: 2000, sandbox_id: "s2".to_owned(), reason: "setns".to_owned(), ..entry("a") };
    let now = quarantine.add(again).unwrap();
    assert_eq!((now.since, now.count), (1000, 2));
    assert_eq!((now.sandbox_id.as_str(), now.reason.as_str()), ("s2", "setns"));
    assert_eq!(now.bundle, Some("/b1".into()));
    let most = quarantine.add(Entry { count: u64::MAX, ..entry("a") }).unwrap();
    assert_eq!(most.count, u64::MAX);
    assert_eq!(quarantine.list().unwrap(), [most]);
}

#[test]
fn a_damaged_file_refuses_everything_and_is_left_as_it_is() {
    let dir = Dir::new();
    let quarantine = dir.quarantine();
    quarantine.add(entry("a")).unwrap();
    let good = fs::read_to_string(dir.file()).unwrap();
    let twice = {
        let mut value: serde_json::Value = serde_json::from_str(&good).unwrap();
        let entries = value.get_mut("entries").unwrap().as_array_mut().unwrap();
        entries.push(entries[0].clone());
        value.to_string()
    };
    for text in [
        String::new(),
        "{}".to_owned(),
        "[]".to_owned(),
        "null".to_owned(),
        good.get(..good.len() / 2).unwrap().to_owned(),
        format!("{good}{good}"),
        good.replace("\"version\": 1", "\"version\": 2"),
        good.replace("\"reason\"", "\"raeson\""),
        good.replace("\"count\": 1", "\"count\": -1"),
        good.replace("\"count\": 1", "\"count\": 1, \"count\": 1"),
        twice,
        "[".repeat(1 << 20),
        format!("{good}{}", " ".repeat(LARGEST as usize)),
    ] {
        fs::write(dir.file(), &text).unwrap();
        let damaged = |error| matches!(error, QuarantineError::Damaged { .. });
        assert!(damaged(quarantine.check("b").unwrap_err()));
        assert!(damaged(quarantine.list().unwrap_err()));
        assert!(damaged(quarantine.add(entry("b")).unwrap_err()));
        assert!(damaged(quarantine.release("a").unwrap_err()));
        assert_eq!(fs::read_to_string(dir.file()).unwrap(), text);
    }
}

#[test]
fn a_file_that_others_could_have_written_is_not_believed() {
    let dir = Dir::new();
    let quarantine = dir.quarantine();
    quarantine.add(entry("a")).unwrap();
    let permissions =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    permissions(&dir.file(), 0o620);
    assert!(matches!(quarantine.check("a"), Err(QuarantineError::Untrusted { .. })));
    permissions(&dir.file(), 0o600);
    permissions(&dir.state(), 0o777);
    assert!(matches!(quarantine.check("a"), Err(QuarantineError::Untrusted { .. })));
    assert!(matches!(quarantine.add(entry("b")), Err(QuarantineError::Untrusted { .. })));
    permissions(&dir.state(), 0o700);
    assert!(quarantine.check("a").unwrap().is_some());
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(dir.file(), Some(12345), None).unwrap();
        assert!(matches!(quarantine.check("a"), Err(QuarantineError::Untrusted { .. })));
    }
}

#[test]
fn links_fifos_and_directories_in_its_place_are_errors_without_waiting() {
    let dir = Dir::new();
    let quarantine = dir.quarantine();
    quarantine.add(entry("a")).unwrap();
    let elsewhere = dir.0.join("elsewhere.json");
    fs::rename(dir.file(), &elsewhere).unwrap();
    symlink(&elsewhere, dir.file()).unwrap();
    assert!(matches!(quarantine.check("a"), Err(QuarantineError::Open { .. })));
    fs::remove_file(dir.file()).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, dir.file(), fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    assert!(matches!(quarantine.check("a"), Err(QuarantineError::Untrusted { .. })));
    fs::remove_file(dir.file()).unwrap();
    fs::create_dir(dir.file()).unwrap();
    assert!(quarantine.check("a").is_err());
    // Something that is no directory where the directory should be.
    assert!(Quarantine::open(&elsewhere).check("a").is_err());
    assert!(Quarantine::open(&elsewhere).add(entry("a")).is_err());
}

#[test]
fn what_a_killed_writer_left_does_not_matter() {
    let dir = Dir::new();
    let quarantine = dir.quarantine();
    quarantine.add(entry("a")).unwrap();
    fs::write(dir.state().join(NEXT), "half").unwrap();
    assert!(quarantine.check("a").unwrap().is_some());
    quarantine.add(entry("b")).unwrap();
    fs::remove_file(dir.file()).unwrap();
    symlink("/nonexistent", dir.state().join(NEXT)).unwrap();
    quarantine.add(entry("c")).unwrap();
    assert_eq!(quarantine.list().unwrap(), [entry("c")]);
}

#[test]
fn what_was_caught_cannot_fill_the_file() {
    let dir = Dir::new();
    let quarantine = dir.quarantine();
    assert!(matches!(quarantine.add(entry("")), Err(QuarantineError::BadKey)));
    assert!(matches!(quarantine.add(entry(&"k".repeat(LONGEST_KEY + 1))), Err(QuarantineError::BadKey)));
    let long = quarantine.add(Entry { reason: "é".repeat(1 << 20), ..entry("a") }).unwrap();
    assert!(long.reason.len() <= LONGEST_REASON + 3);
    let mut entries: Entries =
        (0..600).map(|n| format!("{n}{}", "k".repeat(8000))).map(|k| (k.clone(), entry(&k))).collect();
    assert!(matches!(quarantine.replace(std::mem::take(&mut entries)), Err(QuarantineError::Full { .. })));
    assert_eq!(quarantine.list().unwrap(), [long]);
}

#[test]
fn threads_lose_no_entries() {
    let dir = Dir::new();
    let quarantine = dir.quarantine();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let quarantine = &quarantine;
            scope.spawn(move || {
                for number in 0..10 {
                    quarantine.add(entry(&format!("{thread}-{number}"))).unwrap();
                    quarantine.add(entry("shared")).unwrap();
                    assert!(quarantine.check(&format!("{thread}-{number}")).unwrap().is_some());
                }
            });
        }
    });
    assert_eq!(quarantine.list().unwrap().len(), 81);
    assert_eq!(quarantine.check("shared").unwrap().unwrap().count, 80);
}

const INHERITED: &str = "LAZARET_TEST_QUARANTINE";

/// This test starts itself as processes of their own, which find the directory in the environment.
#[test]
fn processes_lose_no_entries() {
    if let Some(directory) = std::env::var_os(INHERITED) {
        let quarantine = Quarantine::open(PathBuf::from(directory));
        for number in 0..10 {
            quarantine.add(entry(&format!("{}-{number}", std::process::id()))).unwrap();
            quarantine.add(entry("shared")).unwrap();
        }
        return;
    }
    let dir = Dir::new();
    let start = |_| {
        #[expect(clippy::disallowed_methods, reason = "concurrent processes are what is tested")]
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "quarantine::tests::processes_lose_no_entries", "--quiet"]);
        command.env(INHERITED, dir.state()).stdout(std::process::Stdio::null()).spawn().unwrap()
    };
    let children: Vec<_> = (0..6).map(start).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let quarantine = dir.quarantine();
    assert_eq!(quarantine.list().unwrap().len(), 61);
    assert_eq!(quarantine.check("shared").unwrap().unwrap().count, 60);
}
