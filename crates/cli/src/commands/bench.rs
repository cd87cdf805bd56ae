pub fn bench(_: &crate::args::Bench) -> anyhow::Result<crate::exit::Exit> { Ok(crate::exit::Exit::Ok) }
