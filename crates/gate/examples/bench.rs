#![allow(unsafe_code)]
#![allow(warnings, clippy::all)]
use lazaret_gate::{judge::*, *};
use serde_json::json;
#[global_allocator]
static A: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;
fn main() {
    let dir = std::path::Path::new("/tmp/h1-bench/policies");
    let mut text = judge::source::DEFAULT.to_string();
    for n in 0..17 {
        text += &format!(
            "@id(\"x{n}\") permit(principal, action == Action::\"s{n}/t1\", resource) when {{ context.args.path like \"/x{n}/*\" && context.insideSession && context.domainsWithin.contains(\"x{n}.com\") }};\n"
        );
    }
    std::fs::write(dir.join("a.cedar"), text).unwrap();
    let mut tools = vec![];
    for s in 0..20 {
        for t in 0..20 {
            tools.push(Tool { server: format!("s{s}"), name: format!("t{t}"), description: String::new(), hints: Hints::default(),
        input_schema: json!({"type":"object","properties":{"path":{"type":"string"},"depth":{"type":"integer"},"list":{"type":"array","items":{"type":"string"}}},"required":["path"]}) });
        }
    }
    let t = std::time::Instant::now();
    let catalog = judge::Catalog::of(&tools);
    let (mut source, d) = Source::open(Origin::Files(dir.into()), &catalog).unwrap();
    println!("open {:?} {} policies {}", t.elapsed(), d.len(), source.judge().policies());
    let j = source.judge();
    let args = json!({"path":"/work/session/a/b/c.txt","depth":3,"list":["a","b"]});
    let tool = &tools[1];
    let call = Call { tool, arguments: args.as_object().unwrap() };
    let facts = Facts {
        paths: vec![PathFact {
            argument: "/path".into(),
            given: "x".into(),
            resolved: "/work/session/a/b/c.txt".into(),
            place: Place::Session,
            protected: None,
            access: Access::Read,
        }],
        hosts: vec![],
    };
    let c = Circumstances {
        containment: Containment::Sandboxed,
        network: Network::Closed,
        session: "/work/session".into(),
        pin: Pin::Same,
    };
    let t = std::time::Instant::now();
    let v = j.decide(&call, &facts, &c);
    println!("{:?} {:?} {}", v.decision, v.rule, v.reason);
    println!("first {:?}", t.elapsed());
    fn cpu() -> f64 {
        let s = std::fs::read_to_string("/proc/self/schedstat").unwrap();
        s.split(' ').next().unwrap().parse::<f64>().unwrap()
    }
    let before = cpu();
    let mut samples = vec![];
    for _ in 0..20 {
        let t = std::time::Instant::now();
        for _ in 0..1000 {
            std::hint::black_box(j.decide(&call, &facts, &c));
        }
        samples.push(t.elapsed() / 1000);
    }
    println!("cpu per decision {} us", (cpu() - before) / 20000.0 / 1000.0);
    samples.sort();
    println!("decide min {:?} median {:?}", samples[0], samples[10]);
    std::thread::sleep(std::time::Duration::from_millis(2100));
    source.refresh(&catalog);
    let t = std::time::Instant::now();
    for _ in 0..1000 {
        std::hint::black_box(source.refresh(&catalog));
    }
    println!("refresh {:?}", t.elapsed() / 1000);
}
