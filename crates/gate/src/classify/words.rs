//! What a name tells about its argument: a path, a URL, a host, a pattern, or text that is none of these.

/// How much a name is worth: `path` can mean nothing else, `target` can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strength {
    Likely,
    Certain,
}

/// What an argument may be, from its name and from the format its schema gives. Several at once, since a schema comes
/// from the server and can only add.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Roles {
    pub path: Option<Strength>,
    pub url: Option<Strength>,
    pub host: Option<Strength>,
    pub pattern: bool,
    /// Free text: only taken for something when the whole of it is that.
    pub text: bool,
}

/// The words of a name, in lower case: `repo_path`, `repoPath` and `REPO-PATH` are `repo`, `path`.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut before = ' ';
    let mut rest = name.chars().peekable();
    while let Some(character) = rest.next() {
        let next_is_small = rest.peek().is_some_and(|next| next.is_lowercase());
        let begins = character.is_uppercase()
            && (before.is_lowercase() || before.is_ascii_digit() || before.is_uppercase() && next_is_small);
        if (begins || !character.is_alphabetic()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if character.is_alphabetic() {
            word.extend(character.to_lowercase());
        }
        before = character;
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

impl Roles {
    /// The last word that means something decides: a `file_content` is content, a `content_path` a path. None when no
    /// word does.
    pub fn of_name(words: &[String]) -> Option<Roles> {
        words.iter().rev().find_map(|word| of_word(word))
    }

    /// What a schema's `format` adds.
    pub fn add_format(&mut self, format: &str) {
        let certain = Some(Strength::Certain);
        match format {
            "uri" | "uri-reference" | "iri" | "iri-reference" | "url" => self.url = certain,
            "hostname" | "idn-hostname" | "ipv4" | "ipv6" => self.host = certain,
            "path" | "file-path" | "directory-path" | "file" | "directory" => self.path = certain,
            _ => return,
        }
        self.text = false;
    }
}

fn of_word(word: &str) -> Option<Roles> {
    use Strength::{Certain, Likely};
    let roles = Roles::default();
    let known = match word {
        "path" | "paths" | "pathname" | "file" | "files" | "filename" | "filenames" | "filepath"
        | "filepaths" | "dir" | "dirs" | "directory" | "directories" | "folder" | "folders" | "cwd"
        | "pwd" | "workdir" | "worktree" | "subdir" | "dirname" | "dirpath" => {
            Roles { path: Some(Certain), ..roles }
        }
        "source" | "sources" | "src" | "destination" | "dest" | "dst" | "target" | "targets" | "output"
        | "outputs" | "out" | "outfile" | "input" | "inputs" | "infile" | "root" | "roots" | "workspace"
        | "location" | "locations" | "archive" | "attachment" | "attachments" | "image" | "images"
        | "log" | "database" | "db" => Roles { path: Some(Likely), ..roles },
        "url" | "urls" | "href" | "hrefs" | "endpoint" | "endpoints" | "website" | "webhook" | "baseurl" => {
            Roles { url: Some(Certain), ..roles }
        }
        "uri" | "uris" | "link" | "links" | "callback" | "feed" | "feeds" | "repository" | "repo" => {
            Roles { url: Some(Likely), ..roles }
        }
        "host" | "hosts" | "hostname" | "hostnames" | "domain" | "domains" => {
            Roles { host: Some(Certain), ..roles }
        }
        "server" | "servers" | "proxy" | "registry" | "address" | "addresses" | "ip" | "ips" | "mirror"
        | "remote" | "remotes" | "origin" | "site" | "sites" | "nameserver" | "peer" | "broker" => {
            Roles { host: Some(Likely), ..roles }
        }
        "pattern" | "patterns" | "glob" | "globs" | "include" | "includes" | "exclude" | "excludes" => {
            Roles { pattern: true, ..roles }
        }
        "content" | "contents" | "text" | "texts" | "message" | "messages" | "msg" | "query" | "queries"
        | "body" | "code" | "prompt" | "description" | "comment" | "comments" | "title" | "summary"
        | "note" | "notes" | "reason" | "instructions" | "snippet" | "html" | "css" | "markdown" | "json"
        | "xml" | "yaml" | "sql" | "script" | "command" | "regex" | "regexp" | "xpath" | "selector"
        | "expression" | "question" | "answer" | "thought" | "observation" | "observations" | "diff"
        | "patch" | "subject" | "value" | "template" => Roles { text: true, ..roles },
        // `file_id`, `path_type`: about the thing, not the thing.
        "id" | "ids" | "type" | "types" | "kind" | "size" | "format" | "encoding" | "mode" | "count"
        | "limit" | "depth" | "offset" | "mime" | "charset" | "hash" | "sha" | "line" | "lines" => roles,
        _ => return None,
    };
    Some(known)
}
