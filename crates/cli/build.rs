//! Makes the executable appear at the usual place, `target/PROFILE/lazaret`, too: builds are for an explicit
//! target (see `.cargo/config.toml`), and cargo puts those into a directory of their own.

use std::{env, fs, os::unix::fs::symlink, path::PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let (Some(out), Ok(target), Ok(profile)) =
        (env::var_os("OUT_DIR").map(PathBuf::from), env::var("TARGET"), env::var("PROFILE"))
    else {
        return;
    };
    // …/target/TRIPLE/PROFILE/build/lazaret-cli-HASH/out
    let Some(triple_directory) = out.ancestors().nth(4).filter(|path| path.ends_with(&target)) else {
        return;
    };
    let Some(usual) = triple_directory.parent().map(|target| target.join(&profile)) else { return };
    let link = usual.join("lazaret");
    let leads_to = PathBuf::from("..").join(&target).join(&profile).join("lazaret");
    if fs::read_link(&link).is_ok_and(|now| now == leads_to) {
        return;
    }
    // A convenience: a build without it is still a build.
    let _ = fs::create_dir_all(&usual);
    let _ = fs::remove_file(&link);
    let _ = symlink(leads_to, link);
}
