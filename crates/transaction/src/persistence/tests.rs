use super::*;

fn file() -> Node {
    Node::File { size: 1, content: None, same: None }
}

fn judged(root: &str, path: &str) -> Option<&'static str> {
    Judge::new(Path::new(root)).judge(Path::new(path), Some(&file()), None)
}

#[test]
fn what_acts_on_the_next_run_is_found_wherever_it_is() {
    for path in [
        ".git/hooks/pre-commit",
        "sub/dir/.git/hooks/post-checkout",
        ".git/config",
        ".git",
        ".git/info/attributes",
        ".git/modules/a/b/hooks/post-merge",
        ".git/modules/a/config",
        "mirror.git/hooks/update",
        ".gitmodules",
        "src/.gitattributes",
        ".github/workflows/ci.yml",
        ".github/workflows/deep/er.yml",
        ".github/actions/a/action.yml",
        ".gitlab-ci.yml",
        ".circleci/config.yml",
        "Jenkinsfile",
        "azure-pipelines.yml",
        ".travis.yml",
        ".drone.yml",
        ".woodpecker.yml",
        ".woodpecker/build.yml",
        ".buildkite/pipeline.yml",
        ".envrc",
        ".tool-versions",
        "mise.toml",
        ".mise.toml",
        ".pre-commit-config.yaml",
        ".husky/pre-commit",
        "lefthook.yml",
        "Makefile",
        "sub/GNUmakefile",
        "rules.mk",
        "build.rs",
        "setup.py",
        "tests/conftest.py",
        "package.json",
        ".npmrc",
        ".yarnrc.yml",
        ".pnpmfile.cjs",
        "build.gradle",
        "build.gradle.kts",
        "gradlew",
        "pom.xml",
        "CMakeLists.txt",
        "cmake/find.cmake",
        "configure",
        "Dockerfile",
        "Dockerfile.dev",
        "docker-compose.override.yml",
        "compose.yaml",
        ".cargo/config.toml",
        "rust-toolchain.toml",
        "WORKSPACE",
        "BUILD.bazel",
        ".claude/settings.json",
        ".claude/commands/x.md",
        "CLAUDE.md",
        "docs/AGENTS.md",
        ".cursor/rules/a.mdc",
        ".cursorrules",
        ".mcp.json",
        ".github/copilot-instructions.md",
        ".aider.conf.yml",
        ".windsurfrules",
        ".vscode/tasks.json",
        ".idea/workspace.xml",
        "x.code-workspace",
        ".exrc",
        ".devcontainer/devcontainer.json",
        ".bashrc",
        ".zshenv",
        ".config/fish/config.fish",
        ".config/autostart/a.desktop",
        ".config/systemd/user/a.service",
        ".ssh/authorized_keys",
        ".gitconfig",
        "lib/sitecustomize.py",
        "lib/a.pth",
    ] {
        assert!(judged("/home/u/project", path).is_some(), "{path}");
    }
}

#[test]
fn ordinary_files_are_not_held_up() {
    for path in [
        "src/main.rs",
        "README.md",
        ".env",
        ".editorconfig",
        ".gitignore",
        ".git/index",
        ".git/HEAD",
        ".git/objects/ab/cdef",
        ".git/refs/heads/main",
        "hooks/pre-commit",
        "config",
        "workflows/ci.yml",
        ".github/README.md",
        "src/build.rs.txt",
        "xMakefile",
        "package.json.bak.txt",
        "fish/config.fish",
        "claude.txt",
        "docker-compose.txt",
        "path",
        "a.pthx",
    ] {
        assert_eq!(judged("/home/u/project", path), None, "{path}");
    }
}

#[test]
fn letters_of_either_case_are_the_same() {
    assert!(judged("/p", "MAKEFILE").is_some());
    assert!(judged("/p", ".GIT/Hooks/pre-commit").is_some());
    assert!(judged("/p", "agents.MD").is_some());
}

#[test]
fn a_tree_that_is_such_a_directory_itself_is_recognised() {
    assert!(judged("/p/.git", "hooks/pre-commit").is_some());
    assert!(judged("/p/.git/hooks", "pre-commit").is_some());
    assert!(judged("/p/.git", "config").is_some());
    assert!(judged("/h/.config", "fish/config.fish").is_some());
    assert!(judged("/h/.config/fish", "functions/f.fish").is_some());
    assert!(judged("/h/.claude", "settings.json").is_some());
    assert!(judged("/p/.github", "workflows/ci.yml").is_some());
    assert_eq!(judged("/p/.git", "HEAD"), None);
    // A checkout that an agent made below its own directory is a project like any other.
    assert_eq!(judged("/h/.claude/worktrees/x", "src/main.rs"), None);
    assert!(judged("/h/.claude/worktrees/x", "Makefile").is_some());
}

#[test]
fn a_link_in_place_of_such_a_directory_acts_and_a_directory_does_not() {
    let link = Node::Symlink { target: "elsewhere".into() };
    let mut judge = Judge::new(Path::new("/p"));
    for path in [".git", ".git/hooks", ".github", ".github/workflows", ".claude", "x.git/hooks"] {
        assert!(judge.judge(Path::new(path), Some(&link), None).is_some(), "{path}");
        assert_eq!(judge.judge(Path::new(path), Some(&Node::Directory), None), None, "{path}");
    }
    assert_eq!(judge.judge(Path::new("src"), Some(&link), None), None);
}

#[test]
fn removing_such_a_file_counts_and_removing_a_directory_does_not() {
    let mut judge = Judge::new(Path::new("/p"));
    assert!(judge.judge(Path::new(".git/hooks/pre-push"), None, Some(Kind::File)).is_some());
    assert!(judge.judge(Path::new("Makefile"), Some(&Node::Directory), Some(Kind::File)).is_some());
    assert_eq!(judge.judge(Path::new(".git/hooks"), None, Some(Kind::Directory)), None);
}

#[test]
fn every_pattern_is_in_lower_case_and_every_reason_is_read_back() {
    for (reason, patterns) in TABLE {
        for pattern in *patterns {
            assert_eq!(*pattern, pattern.to_ascii_lowercase());
            assert!(!pattern.starts_with('/') && !pattern.is_empty());
        }
        let json = serde_json::to_string(reason).unwrap();
        let mut deserializer = serde_json::Deserializer::from_str(&json);
        assert_eq!(deserialize_reason(&mut deserializer).unwrap(), Some(*reason));
    }
    let mut deserializer = serde_json::Deserializer::from_str("\"of a later version\"");
    assert_eq!(deserialize_reason(&mut deserializer).unwrap(), Some(UNKNOWN));
}

#[test]
fn stars_match_any_part_of_a_name() {
    for (glob, text) in [("*.mk", "a.mk"), ("a*c*e", "abcde"), ("*", ""), ("a*", "a"), ("a*a", "aa")] {
        assert!(matches(glob.as_bytes(), text.as_bytes()), "{glob} {text}");
    }
    for (glob, text) in [("*.mk", "a.mkx"), ("a*a", "a"), ("a", "ab"), ("a*b", "ac")] {
        assert!(!matches(glob.as_bytes(), text.as_bytes()), "{glob} {text}");
    }
}
