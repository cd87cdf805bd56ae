//! Arbitrary bytes as settings of srt: reading and translating never panics, and what comes out is a policy that our
//! own loader takes.
#![no_main]

use std::path::Path;

use lazaret_policy::load;
use lazaret_srt::{
    Surroundings, settings,
    translate::{Passing, translate},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(settings) = settings::parse(text, Path::new("settings.json")) else { return };
    let surroundings = Surroundings {
        directory: "/no/where".into(),
        home: Some("/no/home".into()),
        uid: 1,
        environment: [("PATH".to_owned(), "/bin".to_owned())].into(),
        passing: Passing::All,
    };
    let Ok(translated) = translate(&settings, &surroundings) else { return };
    let json = serde_json::to_string(&translated.policy).expect("a policy is JSON");
    load::parse(&json, load::Format::Json, Path::new("policy.json")).expect("what is translated loads");
});
