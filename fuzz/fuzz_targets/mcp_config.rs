//! Arbitrary bytes as a list of MCP servers: reading, importing and resolving never panic, only a plain `false` opts
//! out of the sandbox, and what comes out of an import is read again.
#![no_main]

use std::path::Path;

use lazaret_mcp::{
    config::{self, Definition, Sandbox, SandboxPolicy, Surroundings},
    containment::{Availability, Containment, Place, resolve},
    import,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let surroundings = Surroundings {
        home: Some("/no/home".into()),
        environment: [("PATH".into(), "/bin".into()), ("A".into(), "${A}".into())].into(),
    };
    for file in ["/no/where/client.json", "/no/where/config.toml"] {
        if let Ok(imported) = import::import(text, Path::new(file), &surroundings) {
            let again = config::parse(&imported.text, Path::new("/no/where/ours.json"), &surroundings)
                .expect("what is imported is read");
            assert_eq!(again.servers.len(), imported.taken.len());
        }
    }
    let Ok(config) = config::parse(text, Path::new("/no/where/servers.json"), &surroundings) else { return };
    let place = Place { session: "/no/session".into(), home: surroundings.home.clone(), ..Place::default() };
    for server in &config.servers {
        let Definition::Local(local) = &server.definition else { continue };
        let resolved = resolve(local, &place, &Availability::Available, SandboxPolicy::Enforce);
        if let Ok(Containment::Open(_)) = resolved {
            assert_eq!(local.sandbox, Sandbox::OptOut);
        }
        if let Ok(Containment::Sandboxed(params)) = resolved {
            assert_eq!(params.allow_write.first(), Some(&place.session));
            assert!(params.deny_read.iter().all(|path| path.is_absolute()));
        }
        let missing = Availability::Unsupported { platform: "none".to_owned() };
        let refused = resolve(local, &place, &missing, SandboxPolicy::Enforce);
        assert!(refused.is_err() || local.sandbox == Sandbox::OptOut);
    }
});
