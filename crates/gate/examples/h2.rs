#![allow(clippy::all, reason = "temporary")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, reason = "temporary")]
use lazaret_gate::*;
use serde_json::json;
use std::path::Path;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let tool = |n: &str, s: serde_json::Value| Tool {
        server: "git".into(),
        name: n.into(),
        description: String::new(),
        input_schema: s,
        hints: Hints::default(),
    };
    if args[1] == "git" {
        // dirs on stdin lines: dir remote direction
        for line in std::io::stdin().lines() {
            let line = line.unwrap();
            let p: Vec<&str> = line.split('\t').collect();
            let s = Surroundings::new(Path::new(p[0]), Path::new(p[0])).unwrap();
            let t = tool(if p[2] == "push" { "git_push" } else { "git_fetch" }, json!(null));
            let a = if p[1].is_empty() {
                json!({"repo_path": p[0]})
            } else {
                json!({"repo_path": p[0], "remote": p[1]})
            };
            let r = classify(&Call { tool: &t, arguments: a.as_object().unwrap() }, &s);
            match r {
                Ok(f) => println!(
                    "{}",
                    f.hosts
                        .iter()
                        .map(|h| h.host.clone())
                        .chain(f.paths.iter().skip(1).map(|p| format!("path:{}", p.resolved.display())))
                        .collect::<Vec<_>>()
                        .join(",")
                ),
                Err(e) => println!("ERR {e}"),
            }
        }
        return;
    }
    let dir = Path::new(&args[2]);
    let s = Surroundings::new(dir, dir)
        .unwrap()
        .with_home(Path::new("/root"))
        .unwrap()
        .protect(Path::new("/root/.config/lazaret"), "c")
        .unwrap()
        .protect(Path::new("/root/.local/state/lazaret"), "s")
        .unwrap()
        .protect(Path::new("/etc/lazaret"), "e")
        .unwrap()
        .protect(&dir.join(".env"), "x")
        .unwrap();
    let schema = json!({"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"},"edits":{"type":"array","items":{"type":"object","properties":{"oldText":{"type":"string"},"newText":{"type":"string"}}}},"encoding":{"type":"string"},"dryRun":{"type":"boolean"},"url":{"type":"string"}},"required":["path"]});
    for (n, a) in [
        ("read_file", json!({"path":"src/deep/file.txt"})),
        (
            "edit_file",
            json!({"path": dir.join("a/b/c.txt"), "edits":[{"oldText":"a","newText":"b"}], "dryRun": false, "encoding":"utf-8"}),
        ),
        ("write_file", json!({"path":"/etc/passwd","content":"x".repeat(10000)})),
        ("fetch", json!({"path":"x","url":"https://example.com/a/b?c"})),
    ] {
        let t = tool(n, schema.clone());
        let c = Call { tool: &t, arguments: a.as_object().unwrap() };
        classify(&c, &s).unwrap();
        let start = std::time::Instant::now();
        for _ in 0..5000 {
            std::hint::black_box(classify(&c, &s)).ok();
        }
        println!("{n}: {:?}", start.elapsed() / 5000);
    }
}
