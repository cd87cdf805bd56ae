#compdef lazaret

autoload -U is-at-least

_lazaret() {
    typeset -A opt_args
    typeset -a _arguments_options
    local ret=1

    if is-at-least 5.2; then
        _arguments_options=(-s -S -C)
    else
        _arguments_options=(-s -C)
    fi

    local context curcontext="$curcontext" state line
    _arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
":: :_lazaret_commands" \
"*::: :->lazaret" \
&& ret=0
    case $state in
    (lazaret)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:lazaret-command-$line[1]:"
        case $line[1] in
            (run)
_arguments "${_arguments_options[@]}" : \
'(--profile)--policy=[Policy file, JSON or TOML]:FILE:_files' \
'--profile=[Built-in profile]:NAME:_default' \
'--level=[Isolation level\: 0 none (needs the administrator'\''s approval), 1 process, 2 full]:LEVEL:_default' \
'*--ro=[Make a path visible, read-only]:PATH:_files' \
'*--rw=[Make a path visible and writable]:PATH:_files' \
'*--deny=[Deny a path, also below an allowed one, also when it does not exist yet]:PATH:_files' \
'*--env=[Pass a variable through, or set it]:NAME[=VALUE]:_default' \
'*--allow=[Let the command reach a host\: a name, *.domain, an address or a network, each with \:PORT if wanted]:HOST[:PORT]:_default' \
'*--allow-address=[Let allowed names lead to a private, loopback or otherwise guarded address]:CIDR:_default' \
'*--resolve=[Pin a name to an address instead of asking the host'\''s resolver]:NAME=ADDRESS:_default' \
'*--publish=[Forward a loopback port of the host to a server inside]:HOSTPORT:PORT:_default' \
'--memory=[Most memory (bytes, or with K, M, G)]:SIZE:_default' \
'--cpu-time=[Most CPU time (milliseconds, or with s, m, h)]:TIME:_default' \
'--timeout=[Most wall-clock time; then SIGTERM, and after a grace period SIGKILL for everything]:TIME:_default' \
'--max-procs=[Most processes and threads]:N:_default' \
'--max-write=[Most that can be written to private storage and to any one file]:SIZE:_default' \
'--on-success=[With --cow\: what becomes of the changes when the command succeeds \[default\: keep\]]:WHAT:((commit\:"Apply them to the host"
keep\:"Keep them for \`lazaret diff\`, \`commit\` and \`discard\`"
discard\:"Throw them away"))' \
'--tool=[The name under which an escape attempt bars this from running again]:NAME:_default' \
'--on-escape=[What follows an escape attempt (default\: kill at level 2)]:ON_ESCAPE:(kill deny)' \
'--audit=[The audit log \[default\: \$XDG_STATE_HOME/lazaret/audit.jsonl\]]:FILE:_files' \
'--report=[Write a report as JSON]:FILE:_files' \
'--cow[Writable paths become copy-on-write\: the host'\''s files stay as they are until \`commit\`]' \
'(--warn)--enforce[Refuse to run when a layer is missing (the default)]' \
'--warn[Run with the layers there are, and say what is weaker]' \
'--plan[Print the steps and start nothing]' \
'--json[With --plan\: as JSON]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'-V[Print version]' \
'--version[Print version]' \
'*::command -- The command and its arguments:_default' \
&& ret=0
;;
(srt)
_arguments "${_arguments_options[@]}" : \
'-s+[The settings file \[default\: ~/.srt-settings.json, if it exists\]]:FILE:_files' \
'--settings=[The settings file \[default\: ~/.srt-settings.json, if it exists\]]:FILE:_files' \
'-c+[A command line for the shell, as it is]:COMMAND:_default' \
'--control-fd=[Read new settings from an inherited descriptor, a line of JSON each; their lists of hosts take effect]:FD:_default' \
'--audit=[The audit log \[default\: \$XDG_STATE_HOME/lazaret/audit.jsonl\]]:FILE:_files' \
'--report=[Write a report as JSON]:FILE:_files' \
'-d[Say what is done, on standard error]' \
'--debug[Say what is done, on standard error]' \
'--clean-env[Pass only harmless variables on, not the whole environment]' \
'--print-policy[Print what the settings come to as a policy, and start nothing]' \
'-V[Print the version]' \
'--version[Print the version]' \
'-h[Print help]' \
'--help[Print help]' \
'*::command -- The command and its arguments:_default' \
&& ret=0
;;
(learn)
_arguments "${_arguments_options[@]}" : \
'-o+[Where the policy is written; - is standard output \[default\: lazaret-learned.toml\]]:FILE:_files' \
'--output=[Where the policy is written; - is standard output \[default\: lazaret-learned.toml\]]:FILE:_files' \
'--name=[What the policy is called in its first line]:NAME:_default' \
'*--merge=[Allow what this learnt policy allows as well]:FILE:_files' \
'*--ro=[Make a path visible that is not anyway, read-only]:PATH:_files' \
'*--rw=[Make a path writable besides the current directory]:PATH:_files' \
'*--deny=[Deny a path, also below an allowed one]:PATH:_files' \
'*--env=[Pass a variable through, or set it; the policy does, too]:NAME[=VALUE]:_default' \
'(--no-network)*--allow=[Let the command reach this host only; can be repeated \[default\: any public host\]]:HOST[:PORT]:_default' \
'(--no-network)*--allow-address=[Let names lead to a private, loopback or otherwise guarded address]:CIDR:_default' \
'(--no-network)*--resolve=[Pin a name to an address instead of asking the host'\''s resolver]:NAME=ADDRESS:_default' \
'--timeout=[Most wall-clock time; then SIGTERM, and after a grace period SIGKILL for everything]:TIME:_default' \
'--audit=[The audit log \[default\: \$XDG_STATE_HOME/lazaret/audit.jsonl\]]:FILE:_files' \
'--report=[Write a report of the run as JSON]:FILE:_files' \
'--force[Replace the file if it is there]' \
'--no-network[Without network]' \
'--json[Print what was learnt as JSON on standard output, after the command'\''s own]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
'*::command -- The command and its arguments:_default' \
&& ret=0
;;
(diff)
_arguments "${_arguments_options[@]}" : \
'--stat[One line for each change]' \
'(--stat)--list[List all transactions instead]' \
'--json[]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
'::id -- The transaction, its sandbox, or the beginning of its id \[default\: the newest of this directory\]:_default' \
&& ret=0
;;
(commit)
_arguments "${_arguments_options[@]}" : \
'--include-persistence[Also apply what acts on the next run\: git hooks, CI files, build scripts, settings]' \
'--leave-conflicts[Leave out what has changed on the host meanwhile, and apply the rest]' \
'--json[]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
'::id -- The transaction, its sandbox, or the beginning of its id \[default\: the newest of this directory\]:_default' \
&& ret=0
;;
(discard)
_arguments "${_arguments_options[@]}" : \
'--json[]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
'::id -- The transaction, its sandbox, or the beginning of its id \[default\: the newest of this directory\]:_default' \
&& ret=0
;;
(tool)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
":: :_lazaret__subcmd__tool_commands" \
"*::: :->tool" \
&& ret=0

    case $state in
    (tool)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:lazaret-tool-command-$line[1]:"
        case $line[1] in
            (list)
_arguments "${_arguments_options[@]}" : \
'--json[]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(run)
_arguments "${_arguments_options[@]}" : \
'--input=[The input\: JSON, or @FILE, or - for standard input \[default\: {}\]]:JSON:_default' \
'--audit=[The audit log \[default\: \$XDG_STATE_HOME/lazaret/audit.jsonl\]]:FILE:_files' \
'--json[The result is JSON in any case]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':name:_default' \
&& ret=0
;;
(quarantine)
_arguments "${_arguments_options[@]}" : \
'--reason=[]:TEXT:_default' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':name:_default' \
&& ret=0
;;
(release)
_arguments "${_arguments_options[@]}" : \
'--reason=[Why it may run again; goes into the audit log]:TEXT:_default' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':name:_default' \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
":: :_lazaret__subcmd__tool__subcmd__help_commands" \
"*::: :->help" \
&& ret=0

    case $state in
    (help)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:lazaret-tool-help-command-$line[1]:"
        case $line[1] in
            (list)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(run)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(quarantine)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(release)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
        esac
    ;;
esac
;;
        esac
    ;;
esac
;;
(escalation)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
":: :_lazaret__subcmd__escalation_commands" \
"*::: :->escalation" \
&& ret=0

    case $state in
    (escalation)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:lazaret-escalation-command-$line[1]:"
        case $line[1] in
            (list)
_arguments "${_arguments_options[@]}" : \
'--session=[Of one session\: its id, the beginning of it, or its directory]:ID|DIR:_default' \
'--json[]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(show)
_arguments "${_arguments_options[@]}" : \
'--json[]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':id -- The question, or the beginning of its id:_default' \
&& ret=0
;;
(approve)
_arguments "${_arguments_options[@]}" : \
'--scope=[]:SCOPE:((once\:"This call"
session\:"Calls like it until the session ends"))' \
'--candidate=[For the session, in this of the ways that \`show\` lists \[default\: 1\]]:N:_default' \
'--note=[Goes into the record]:TEXT:_default' \
'(--scope)--session[Calls like it, too, until the session ends\: the same as --scope session]' \
'--json[]' \
'-h[Print help (see more with '\''--help'\'')]' \
'--help[Print help (see more with '\''--help'\'')]' \
'-V[Print version]' \
'--version[Print version]' \
':id -- The question, or the beginning of its id:_default' \
&& ret=0
;;
(deny)
_arguments "${_arguments_options[@]}" : \
'--reason=[The agent is told]:TEXT:_default' \
'--json[]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':id -- The question, or the beginning of its id:_default' \
&& ret=0
;;
(watch)
_arguments "${_arguments_options[@]}" : \
'--session=[Of one session\: its id, the beginning of it, or its directory]:ID|DIR:_default' \
'--json[One question in a line]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
":: :_lazaret__subcmd__escalation__subcmd__help_commands" \
"*::: :->help" \
&& ret=0

    case $state in
    (help)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:lazaret-escalation-help-command-$line[1]:"
        case $line[1] in
            (list)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(show)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(approve)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(deny)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(watch)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
        esac
    ;;
esac
;;
        esac
    ;;
esac
;;
(doctor)
_arguments "${_arguments_options[@]}" : \
'--json[Machine-readable output]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(policy)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
":: :_lazaret__subcmd__policy_commands" \
"*::: :->policy" \
&& ret=0

    case $state in
    (policy)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:lazaret-policy-command-$line[1]:"
        case $line[1] in
            (check)
_arguments "${_arguments_options[@]}" : \
'--tools=[Check policies for tool calls against these tools as well\: a JSON array of what servers list]:FILE:_files' \
'--json[]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':file:_files' \
&& ret=0
;;
(schema)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(show)
_arguments "${_arguments_options[@]}" : \
'--json[As JSON instead of TOML]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':name:_default' \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
":: :_lazaret__subcmd__policy__subcmd__help_commands" \
"*::: :->help" \
&& ret=0

    case $state in
    (help)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:lazaret-policy-help-command-$line[1]:"
        case $line[1] in
            (check)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(schema)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(show)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
        esac
    ;;
esac
;;
        esac
    ;;
esac
;;
(profile)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
":: :_lazaret__subcmd__profile_commands" \
"*::: :->profile" \
&& ret=0

    case $state in
    (profile)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:lazaret-profile-command-$line[1]:"
        case $line[1] in
            (list)
_arguments "${_arguments_options[@]}" : \
'--json[]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(show)
_arguments "${_arguments_options[@]}" : \
'--json[As JSON instead of TOML]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':name:_default' \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
":: :_lazaret__subcmd__profile__subcmd__help_commands" \
"*::: :->help" \
&& ret=0

    case $state in
    (help)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:lazaret-profile-help-command-$line[1]:"
        case $line[1] in
            (list)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(show)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
        esac
    ;;
esac
;;
        esac
    ;;
esac
;;
(mcp)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
":: :_lazaret__subcmd__mcp_commands" \
"*::: :->mcp" \
&& ret=0

    case $state in
    (mcp)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:lazaret-mcp-command-$line[1]:"
        case $line[1] in
            (serve)
_arguments "${_arguments_options[@]}" : \
'--config=[The list of servers \[default\: \$XDG_CONFIG_HOME/lazaret/mcp-servers.json\]]:FILE:_files' \
'--session=[The directory that servers may write in \[default\: a new one for each session\]]:DIR:_files' \
'--policy=[A directory of *.cedar files that decide on calls \[default\: \$XDG_CONFIG_HOME/lazaret/mcp-policy if it has any, else the built-in policy\]]:DIR:_files' \
'--audit=[The audit log \[default\: \$XDG_STATE_HOME/lazaret/audit.jsonl\]]:FILE:_files' \
'--http=[Serve streamable HTTP on a loopback address instead; port 0 takes a free one]:ADDRESS:_default' \
'--token-file=[With --http\: the file with the bearer token; made if it is missing \[default\: in the state directory\]]:FILE:_files' \
'*--allow-origin=[With --http\: also accept requests of pages from this origin]:ORIGIN:_default' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(wrap)
_arguments "${_arguments_options[@]}" : \
'--name=[The name under which policies and the log know it \[default\: the command'\''s\]]:NAME:_default' \
'*--allow-write=[Let it write here as well]:PATH:_files' \
'*--deny-read=[Hide this from it as well]:PATH:_files' \
'*--allow=[Let it reach a host\: a name or *.domain]:HOST:_default' \
'*--env=[Pass a variable through, or set it]:NAME[=VALUE]:_default' \
'--session=[The directory that servers may write in \[default\: a new one for each session\]]:DIR:_files' \
'--policy=[A directory of *.cedar files that decide on calls \[default\: \$XDG_CONFIG_HOME/lazaret/mcp-policy if it has any, else the built-in policy\]]:DIR:_files' \
'--audit=[The audit log \[default\: \$XDG_STATE_HOME/lazaret/audit.jsonl\]]:FILE:_files' \
'--warn[Where no sandbox can be had, run without one and say so]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
'*::command -- The server'\''s command and its arguments:_default' \
&& ret=0
;;
(import)
_arguments "${_arguments_options[@]}" : \
'-o+[Where the list is written; - is standard output \[default\: \$XDG_CONFIG_HOME/lazaret/mcp-servers.json\]]:FILE:_files' \
'--output=[Where the list is written; - is standard output \[default\: \$XDG_CONFIG_HOME/lazaret/mcp-servers.json\]]:FILE:_files' \
'--name=[What the client is to call the proxy]:NAME:_default' \
'--force[Replace the list if it is there]' \
'--json[Say what was done as JSON]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':file -- The client'\''s configuration:_files' \
&& ret=0
;;
(explain)
_arguments "${_arguments_options[@]}" : \
'--config=[The list of servers \[default\: \$XDG_CONFIG_HOME/lazaret/mcp-servers.json\]]:FILE:_files' \
'--session=[The directory that servers may write in \[default\: a new one for each session\]]:DIR:_files' \
'--policy=[A directory of *.cedar files that decide on calls \[default\: \$XDG_CONFIG_HOME/lazaret/mcp-policy if it has any, else the built-in policy\]]:DIR:_files' \
'--audit=[The audit log \[default\: \$XDG_STATE_HOME/lazaret/audit.jsonl\]]:FILE:_files' \
'--json[]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':server:_default' \
':tool:_default' \
'::arguments -- The arguments of the call, a JSON object:_default' \
&& ret=0
;;
(status)
_arguments "${_arguments_options[@]}" : \
'--json[]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(trust)
_arguments "${_arguments_options[@]}" : \
'--config=[The list of servers \[default\: \$XDG_CONFIG_HOME/lazaret/mcp-servers.json\]]:FILE:_files' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':server:_default' \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
":: :_lazaret__subcmd__mcp__subcmd__help_commands" \
"*::: :->help" \
&& ret=0

    case $state in
    (help)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:lazaret-mcp-help-command-$line[1]:"
        case $line[1] in
            (serve)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(wrap)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(import)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(explain)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(status)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(trust)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
        esac
    ;;
esac
;;
        esac
    ;;
esac
;;
(audit)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
":: :_lazaret__subcmd__audit_commands" \
"*::: :->audit" \
&& ret=0

    case $state in
    (audit)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:lazaret-audit-command-$line[1]:"
        case $line[1] in
            (verify)
_arguments "${_arguments_options[@]}" : \
'--json[]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
'::file -- \[default\: $XDG_STATE_HOME/lazaret/audit.jsonl\]:_files' \
&& ret=0
;;
(query)
_arguments "${_arguments_options[@]}" : \
'--since=[From this moment on\: 2h, 30m, 7d ago, a date, or a time as in RFC 3339 (UTC)]:WHEN:_default' \
'--until=[Before this moment]:WHEN:_default' \
'--sandbox=[Of a sandbox, by its id or the beginning of it]:ID:_default' \
'*--event=[Of this kind; more than once for several\: policy-violation and POLICY_VIOLATION are the same]:KIND:_default' \
'--severity=[At least so grave\: low, medium, high, critical]:LEVEL:_default' \
'--host=[About this host, or *.domain for all below a domain]:NAME:_default' \
'--path=[About this path, or anything below it]:PATH:_default' \
'--tool=[Of a tool (behind the proxy also SERVER/TOOL)\: events that name it, and all of its sandboxes]:NAME:_default' \
'--file=[The log \[default\: \$XDG_STATE_HOME/lazaret/audit.jsonl\]]:FILE:_files' \
'--limit=[So many at most]:N:_default' \
'--reverse[The newest first]' \
'--json[One event in a line, exactly as in the log]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(tail)
_arguments "${_arguments_options[@]}" : \
'--since=[From this moment on\: 2h, 30m, 7d ago, a date, or a time as in RFC 3339 (UTC)]:WHEN:_default' \
'--until=[Before this moment]:WHEN:_default' \
'--sandbox=[Of a sandbox, by its id or the beginning of it]:ID:_default' \
'*--event=[Of this kind; more than once for several\: policy-violation and POLICY_VIOLATION are the same]:KIND:_default' \
'--severity=[At least so grave\: low, medium, high, critical]:LEVEL:_default' \
'--host=[About this host, or *.domain for all below a domain]:NAME:_default' \
'--path=[About this path, or anything below it]:PATH:_default' \
'--tool=[Of a tool (behind the proxy also SERVER/TOOL)\: events that name it, and all of its sandboxes]:NAME:_default' \
'--file=[The log \[default\: \$XDG_STATE_HOME/lazaret/audit.jsonl\]]:FILE:_files' \
'-n+[So many of the last events that are asked for]:N:_default' \
'--lines=[So many of the last events that are asked for]:N:_default' \
'-f[Go on with what arrives, also when the log is rotated]' \
'--follow[Go on with what arrives, also when the log is rotated]' \
'--json[One event in a line, exactly as in the log]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(stats)
_arguments "${_arguments_options[@]}" : \
'--since=[From this moment on\: 2h, 30m, 7d ago, a date, or a time as in RFC 3339 (UTC)]:WHEN:_default' \
'--until=[Before this moment]:WHEN:_default' \
'--sandbox=[Of a sandbox, by its id or the beginning of it]:ID:_default' \
'*--event=[Of this kind; more than once for several\: policy-violation and POLICY_VIOLATION are the same]:KIND:_default' \
'--severity=[At least so grave\: low, medium, high, critical]:LEVEL:_default' \
'--host=[About this host, or *.domain for all below a domain]:NAME:_default' \
'--path=[About this path, or anything below it]:PATH:_default' \
'--tool=[Of a tool (behind the proxy also SERVER/TOOL)\: events that name it, and all of its sandboxes]:NAME:_default' \
'--file=[The log \[default\: \$XDG_STATE_HOME/lazaret/audit.jsonl\]]:FILE:_files' \
'--top=[So many hosts, paths, calls and tools at most]:N:_default' \
'--json[]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(show)
_arguments "${_arguments_options[@]}" : \
'--file=[]:FILE:_files' \
'--json[One event in a line, exactly as in the log]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
'::sandbox -- A sandbox id, or the beginning of one \[default\: the newest\]:_default' \
&& ret=0
;;
(export)
_arguments "${_arguments_options[@]}" : \
'--since=[From this moment on\: 2h, 30m, 7d ago, a date, or a time as in RFC 3339 (UTC)]:WHEN:_default' \
'--until=[Before this moment]:WHEN:_default' \
'--sandbox=[Of a sandbox, by its id or the beginning of it]:ID:_default' \
'*--event=[Of this kind; more than once for several\: policy-violation and POLICY_VIOLATION are the same]:KIND:_default' \
'--severity=[At least so grave\: low, medium, high, critical]:LEVEL:_default' \
'--host=[About this host, or *.domain for all below a domain]:NAME:_default' \
'--path=[About this path, or anything below it]:PATH:_default' \
'--tool=[Of a tool (behind the proxy also SERVER/TOOL)\: events that name it, and all of its sandboxes]:NAME:_default' \
'--file=[The log \[default\: \$XDG_STATE_HOME/lazaret/audit.jsonl\]]:FILE:_files' \
'(--csv)--sqlite=[Write a database of SQLite]:FILE:_files' \
'--csv=[Write comma-separated values; - is standard output]:FILE:_files' \
'--force[Replace a file that is there]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(rotate)
_arguments "${_arguments_options[@]}" : \
'--keep=[Keep so many files that were set aside, and remove older ones \[default\: as config.toml says, else all\]]:N:_default' \
'--file=[The log \[default\: \$XDG_STATE_HOME/lazaret/audit.jsonl\]]:FILE:_files' \
'--json[]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
":: :_lazaret__subcmd__audit__subcmd__help_commands" \
"*::: :->help" \
&& ret=0

    case $state in
    (help)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:lazaret-audit-help-command-$line[1]:"
        case $line[1] in
            (verify)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(query)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(tail)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(stats)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(show)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(export)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(rotate)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
        esac
    ;;
esac
;;
        esac
    ;;
esac
;;
(metrics)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
":: :_lazaret__subcmd__metrics_commands" \
"*::: :->metrics" \
&& ret=0

    case $state in
    (metrics)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:lazaret-metrics-command-$line[1]:"
        case $line[1] in
            (serve)
_arguments "${_arguments_options[@]}" : \
'--listen=[Where to listen; port 0 takes any that is free]:ADDRESS:PORT:_default' \
'--audit=[The audit log \[default\: \$XDG_STATE_HOME/lazaret/audit.jsonl\]]:FILE:_files' \
'--per-sandbox=[Tell so many of the newest sandboxes one by one; at most 100]:N:_default' \
'--dangerously-listen-anywhere[Allow an address that others than this machine can reach. Nobody is asked who they are]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(print)
_arguments "${_arguments_options[@]}" : \
'--audit=[The audit log \[default\: \$XDG_STATE_HOME/lazaret/audit.jsonl\]]:FILE:_files' \
'--per-sandbox=[Tell so many of the newest sandboxes one by one; at most 100]:N:_default' \
'--json[]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(write)
_arguments "${_arguments_options[@]}" : \
'--textfile=[The file; node_exporter reads those that end in .prom]:FILE:_files' \
'--every=[Write again and again, after this time (milliseconds, or with s, m, h)]:TIME:_default' \
'--audit=[The audit log \[default\: \$XDG_STATE_HOME/lazaret/audit.jsonl\]]:FILE:_files' \
'--per-sandbox=[Tell so many of the newest sandboxes one by one; at most 100]:N:_default' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
":: :_lazaret__subcmd__metrics__subcmd__help_commands" \
"*::: :->help" \
&& ret=0

    case $state in
    (help)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:lazaret-metrics-help-command-$line[1]:"
        case $line[1] in
            (serve)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(print)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(write)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
        esac
    ;;
esac
;;
        esac
    ;;
esac
;;
(bench)
_arguments "${_arguments_options[@]}" : \
'--runs=[Launches of each]:RUNS:_default' \
'*--against=[Other lazaret executables to measure beside this one]:FILE:_files' \
'--json[]' \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(completions)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':shell:(bash elvish fish powershell zsh)' \
&& ret=0
;;
(launcher)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
&& ret=0
;;
(man)
_arguments "${_arguments_options[@]}" : \
'-h[Print help]' \
'--help[Print help]' \
'-V[Print version]' \
'--version[Print version]' \
':directory:_files' \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
":: :_lazaret__subcmd__help_commands" \
"*::: :->help" \
&& ret=0

    case $state in
    (help)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:lazaret-help-command-$line[1]:"
        case $line[1] in
            (run)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(srt)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(learn)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(diff)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(commit)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(discard)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(tool)
_arguments "${_arguments_options[@]}" : \
":: :_lazaret__subcmd__help__subcmd__tool_commands" \
"*::: :->tool" \
&& ret=0

    case $state in
    (tool)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:lazaret-help-tool-command-$line[1]:"
        case $line[1] in
            (list)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(run)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(quarantine)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(release)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
        esac
    ;;
esac
;;
(escalation)
_arguments "${_arguments_options[@]}" : \
":: :_lazaret__subcmd__help__subcmd__escalation_commands" \
"*::: :->escalation" \
&& ret=0

    case $state in
    (escalation)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:lazaret-help-escalation-command-$line[1]:"
        case $line[1] in
            (list)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(show)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(approve)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(deny)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(watch)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
        esac
    ;;
esac
;;
(doctor)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(policy)
_arguments "${_arguments_options[@]}" : \
":: :_lazaret__subcmd__help__subcmd__policy_commands" \
"*::: :->policy" \
&& ret=0

    case $state in
    (policy)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:lazaret-help-policy-command-$line[1]:"
        case $line[1] in
            (check)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(schema)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(show)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
        esac
    ;;
esac
;;
(profile)
_arguments "${_arguments_options[@]}" : \
":: :_lazaret__subcmd__help__subcmd__profile_commands" \
"*::: :->profile" \
&& ret=0

    case $state in
    (profile)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:lazaret-help-profile-command-$line[1]:"
        case $line[1] in
            (list)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(show)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
        esac
    ;;
esac
;;
(mcp)
_arguments "${_arguments_options[@]}" : \
":: :_lazaret__subcmd__help__subcmd__mcp_commands" \
"*::: :->mcp" \
&& ret=0

    case $state in
    (mcp)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:lazaret-help-mcp-command-$line[1]:"
        case $line[1] in
            (serve)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(wrap)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(import)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(explain)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(status)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(trust)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
        esac
    ;;
esac
;;
(audit)
_arguments "${_arguments_options[@]}" : \
":: :_lazaret__subcmd__help__subcmd__audit_commands" \
"*::: :->audit" \
&& ret=0

    case $state in
    (audit)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:lazaret-help-audit-command-$line[1]:"
        case $line[1] in
            (verify)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(query)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(tail)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(stats)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(show)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(export)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(rotate)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
        esac
    ;;
esac
;;
(metrics)
_arguments "${_arguments_options[@]}" : \
":: :_lazaret__subcmd__help__subcmd__metrics_commands" \
"*::: :->metrics" \
&& ret=0

    case $state in
    (metrics)
        words=($line[1] "${words[@]}")
        (( CURRENT += 1 ))
        curcontext="${curcontext%:*:*}:lazaret-help-metrics-command-$line[1]:"
        case $line[1] in
            (serve)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(print)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(write)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
        esac
    ;;
esac
;;
(bench)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(completions)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(launcher)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(man)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
(help)
_arguments "${_arguments_options[@]}" : \
&& ret=0
;;
        esac
    ;;
esac
;;
        esac
    ;;
esac
}

(( $+functions[_lazaret_commands] )) ||
_lazaret_commands() {
    local commands; commands=(
'run:Run a command in a sandbox' \
'srt:Run a command under the settings of srt (the same as when this program is called \`srt\`)' \
'learn:Run a command, watch it, and write the smallest policy that would have sufficed' \
'diff:Show what a run with --cow changed' \
'commit:Apply what a run with --cow changed to the host' \
'discard:Forget what a run with --cow changed' \
'tool:Run registered tools; bar them and let them run again' \
'escalation:See and answer what MCP sessions ask a person' \
'doctor:Say what this host can enforce, and how to get the rest' \
'policy:Check policies, print their schema or a built-in one' \
'profile:List and show the built-in profiles' \
'mcp:Put every MCP server into a sandbox of its own, and every call under a policy' \
'audit:Ask, follow, verify, rotate and export the audit log' \
'metrics:Tell in numbers what sandboxes do, for Prometheus and others' \
'bench:Measure start-up against bubblewrap, interleaved' \
'completions:Print completions for a shell' \
'launcher:Split off sandboxes for a program that uses lazaret as a library' \
'man:Write the man pages into a directory' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'lazaret commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__audit_commands] )) ||
_lazaret__subcmd__audit_commands() {
    local commands; commands=(
'verify:Check the hash chain over all files; names the first broken line' \
'query:Print the events that are asked for' \
'tail:Print the last events, and those that arrive' \
'stats:Count events, hosts, paths, system calls, tools and outcomes' \
'show:Tell what happened in one sandbox, from its beginning to its end' \
'export:Write events into a database of SQLite, or as CSV' \
'rotate:Set the log aside and go on in a new file, with the same chain' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'lazaret audit commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__audit__subcmd__export_commands] )) ||
_lazaret__subcmd__audit__subcmd__export_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret audit export commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__audit__subcmd__help_commands] )) ||
_lazaret__subcmd__audit__subcmd__help_commands() {
    local commands; commands=(
'verify:Check the hash chain over all files; names the first broken line' \
'query:Print the events that are asked for' \
'tail:Print the last events, and those that arrive' \
'stats:Count events, hosts, paths, system calls, tools and outcomes' \
'show:Tell what happened in one sandbox, from its beginning to its end' \
'export:Write events into a database of SQLite, or as CSV' \
'rotate:Set the log aside and go on in a new file, with the same chain' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'lazaret audit help commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__audit__subcmd__help__subcmd__export_commands] )) ||
_lazaret__subcmd__audit__subcmd__help__subcmd__export_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret audit help export commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__audit__subcmd__help__subcmd__help_commands] )) ||
_lazaret__subcmd__audit__subcmd__help__subcmd__help_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret audit help help commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__audit__subcmd__help__subcmd__query_commands] )) ||
_lazaret__subcmd__audit__subcmd__help__subcmd__query_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret audit help query commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__audit__subcmd__help__subcmd__rotate_commands] )) ||
_lazaret__subcmd__audit__subcmd__help__subcmd__rotate_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret audit help rotate commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__audit__subcmd__help__subcmd__show_commands] )) ||
_lazaret__subcmd__audit__subcmd__help__subcmd__show_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret audit help show commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__audit__subcmd__help__subcmd__stats_commands] )) ||
_lazaret__subcmd__audit__subcmd__help__subcmd__stats_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret audit help stats commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__audit__subcmd__help__subcmd__tail_commands] )) ||
_lazaret__subcmd__audit__subcmd__help__subcmd__tail_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret audit help tail commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__audit__subcmd__help__subcmd__verify_commands] )) ||
_lazaret__subcmd__audit__subcmd__help__subcmd__verify_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret audit help verify commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__audit__subcmd__query_commands] )) ||
_lazaret__subcmd__audit__subcmd__query_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret audit query commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__audit__subcmd__rotate_commands] )) ||
_lazaret__subcmd__audit__subcmd__rotate_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret audit rotate commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__audit__subcmd__show_commands] )) ||
_lazaret__subcmd__audit__subcmd__show_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret audit show commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__audit__subcmd__stats_commands] )) ||
_lazaret__subcmd__audit__subcmd__stats_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret audit stats commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__audit__subcmd__tail_commands] )) ||
_lazaret__subcmd__audit__subcmd__tail_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret audit tail commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__audit__subcmd__verify_commands] )) ||
_lazaret__subcmd__audit__subcmd__verify_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret audit verify commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__bench_commands] )) ||
_lazaret__subcmd__bench_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret bench commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__commit_commands] )) ||
_lazaret__subcmd__commit_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret commit commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__completions_commands] )) ||
_lazaret__subcmd__completions_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret completions commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__diff_commands] )) ||
_lazaret__subcmd__diff_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret diff commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__discard_commands] )) ||
_lazaret__subcmd__discard_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret discard commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__doctor_commands] )) ||
_lazaret__subcmd__doctor_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret doctor commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__escalation_commands] )) ||
_lazaret__subcmd__escalation_commands() {
    local commands; commands=(
'list:List the questions that wait for an answer' \
'show:Show everything about a question' \
'approve:Let a call be made' \
'deny:Refuse a call' \
'watch:Show questions as they come, and answer them with single keys' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'lazaret escalation commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__escalation__subcmd__approve_commands] )) ||
_lazaret__subcmd__escalation__subcmd__approve_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret escalation approve commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__escalation__subcmd__deny_commands] )) ||
_lazaret__subcmd__escalation__subcmd__deny_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret escalation deny commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__escalation__subcmd__help_commands] )) ||
_lazaret__subcmd__escalation__subcmd__help_commands() {
    local commands; commands=(
'list:List the questions that wait for an answer' \
'show:Show everything about a question' \
'approve:Let a call be made' \
'deny:Refuse a call' \
'watch:Show questions as they come, and answer them with single keys' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'lazaret escalation help commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__escalation__subcmd__help__subcmd__approve_commands] )) ||
_lazaret__subcmd__escalation__subcmd__help__subcmd__approve_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret escalation help approve commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__escalation__subcmd__help__subcmd__deny_commands] )) ||
_lazaret__subcmd__escalation__subcmd__help__subcmd__deny_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret escalation help deny commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__escalation__subcmd__help__subcmd__help_commands] )) ||
_lazaret__subcmd__escalation__subcmd__help__subcmd__help_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret escalation help help commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__escalation__subcmd__help__subcmd__list_commands] )) ||
_lazaret__subcmd__escalation__subcmd__help__subcmd__list_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret escalation help list commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__escalation__subcmd__help__subcmd__show_commands] )) ||
_lazaret__subcmd__escalation__subcmd__help__subcmd__show_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret escalation help show commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__escalation__subcmd__help__subcmd__watch_commands] )) ||
_lazaret__subcmd__escalation__subcmd__help__subcmd__watch_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret escalation help watch commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__escalation__subcmd__list_commands] )) ||
_lazaret__subcmd__escalation__subcmd__list_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret escalation list commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__escalation__subcmd__show_commands] )) ||
_lazaret__subcmd__escalation__subcmd__show_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret escalation show commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__escalation__subcmd__watch_commands] )) ||
_lazaret__subcmd__escalation__subcmd__watch_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret escalation watch commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help_commands] )) ||
_lazaret__subcmd__help_commands() {
    local commands; commands=(
'run:Run a command in a sandbox' \
'srt:Run a command under the settings of srt (the same as when this program is called \`srt\`)' \
'learn:Run a command, watch it, and write the smallest policy that would have sufficed' \
'diff:Show what a run with --cow changed' \
'commit:Apply what a run with --cow changed to the host' \
'discard:Forget what a run with --cow changed' \
'tool:Run registered tools; bar them and let them run again' \
'escalation:See and answer what MCP sessions ask a person' \
'doctor:Say what this host can enforce, and how to get the rest' \
'policy:Check policies, print their schema or a built-in one' \
'profile:List and show the built-in profiles' \
'mcp:Put every MCP server into a sandbox of its own, and every call under a policy' \
'audit:Ask, follow, verify, rotate and export the audit log' \
'metrics:Tell in numbers what sandboxes do, for Prometheus and others' \
'bench:Measure start-up against bubblewrap, interleaved' \
'completions:Print completions for a shell' \
'launcher:Split off sandboxes for a program that uses lazaret as a library' \
'man:Write the man pages into a directory' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'lazaret help commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__audit_commands] )) ||
_lazaret__subcmd__help__subcmd__audit_commands() {
    local commands; commands=(
'verify:Check the hash chain over all files; names the first broken line' \
'query:Print the events that are asked for' \
'tail:Print the last events, and those that arrive' \
'stats:Count events, hosts, paths, system calls, tools and outcomes' \
'show:Tell what happened in one sandbox, from its beginning to its end' \
'export:Write events into a database of SQLite, or as CSV' \
'rotate:Set the log aside and go on in a new file, with the same chain' \
    )
    _describe -t commands 'lazaret help audit commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__audit__subcmd__export_commands] )) ||
_lazaret__subcmd__help__subcmd__audit__subcmd__export_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help audit export commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__audit__subcmd__query_commands] )) ||
_lazaret__subcmd__help__subcmd__audit__subcmd__query_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help audit query commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__audit__subcmd__rotate_commands] )) ||
_lazaret__subcmd__help__subcmd__audit__subcmd__rotate_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help audit rotate commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__audit__subcmd__show_commands] )) ||
_lazaret__subcmd__help__subcmd__audit__subcmd__show_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help audit show commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__audit__subcmd__stats_commands] )) ||
_lazaret__subcmd__help__subcmd__audit__subcmd__stats_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help audit stats commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__audit__subcmd__tail_commands] )) ||
_lazaret__subcmd__help__subcmd__audit__subcmd__tail_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help audit tail commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__audit__subcmd__verify_commands] )) ||
_lazaret__subcmd__help__subcmd__audit__subcmd__verify_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help audit verify commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__bench_commands] )) ||
_lazaret__subcmd__help__subcmd__bench_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help bench commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__commit_commands] )) ||
_lazaret__subcmd__help__subcmd__commit_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help commit commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__completions_commands] )) ||
_lazaret__subcmd__help__subcmd__completions_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help completions commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__diff_commands] )) ||
_lazaret__subcmd__help__subcmd__diff_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help diff commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__discard_commands] )) ||
_lazaret__subcmd__help__subcmd__discard_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help discard commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__doctor_commands] )) ||
_lazaret__subcmd__help__subcmd__doctor_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help doctor commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__escalation_commands] )) ||
_lazaret__subcmd__help__subcmd__escalation_commands() {
    local commands; commands=(
'list:List the questions that wait for an answer' \
'show:Show everything about a question' \
'approve:Let a call be made' \
'deny:Refuse a call' \
'watch:Show questions as they come, and answer them with single keys' \
    )
    _describe -t commands 'lazaret help escalation commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__escalation__subcmd__approve_commands] )) ||
_lazaret__subcmd__help__subcmd__escalation__subcmd__approve_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help escalation approve commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__escalation__subcmd__deny_commands] )) ||
_lazaret__subcmd__help__subcmd__escalation__subcmd__deny_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help escalation deny commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__escalation__subcmd__list_commands] )) ||
_lazaret__subcmd__help__subcmd__escalation__subcmd__list_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help escalation list commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__escalation__subcmd__show_commands] )) ||
_lazaret__subcmd__help__subcmd__escalation__subcmd__show_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help escalation show commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__escalation__subcmd__watch_commands] )) ||
_lazaret__subcmd__help__subcmd__escalation__subcmd__watch_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help escalation watch commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__help_commands] )) ||
_lazaret__subcmd__help__subcmd__help_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help help commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__launcher_commands] )) ||
_lazaret__subcmd__help__subcmd__launcher_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help launcher commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__learn_commands] )) ||
_lazaret__subcmd__help__subcmd__learn_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help learn commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__man_commands] )) ||
_lazaret__subcmd__help__subcmd__man_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help man commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__mcp_commands] )) ||
_lazaret__subcmd__help__subcmd__mcp_commands() {
    local commands; commands=(
'serve:Be one MCP server for the client\: each real server in a sandbox of its own, each call under a policy' \
'wrap:The same for a single server, without a file' \
'import:Make our list of servers from another client'\''s configuration' \
'explain:Say what would be decided about a call, and by which rule' \
'status:Show open sessions and their servers' \
'trust:Accept the tools of a server as they are now' \
    )
    _describe -t commands 'lazaret help mcp commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__mcp__subcmd__explain_commands] )) ||
_lazaret__subcmd__help__subcmd__mcp__subcmd__explain_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help mcp explain commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__mcp__subcmd__import_commands] )) ||
_lazaret__subcmd__help__subcmd__mcp__subcmd__import_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help mcp import commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__mcp__subcmd__serve_commands] )) ||
_lazaret__subcmd__help__subcmd__mcp__subcmd__serve_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help mcp serve commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__mcp__subcmd__status_commands] )) ||
_lazaret__subcmd__help__subcmd__mcp__subcmd__status_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help mcp status commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__mcp__subcmd__trust_commands] )) ||
_lazaret__subcmd__help__subcmd__mcp__subcmd__trust_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help mcp trust commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__mcp__subcmd__wrap_commands] )) ||
_lazaret__subcmd__help__subcmd__mcp__subcmd__wrap_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help mcp wrap commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__metrics_commands] )) ||
_lazaret__subcmd__help__subcmd__metrics_commands() {
    local commands; commands=(
'serve:Serve them over HTTP, for Prometheus to fetch' \
'print:Print them once' \
'write:Write them to a file, for the textfile collector of node_exporter' \
    )
    _describe -t commands 'lazaret help metrics commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__metrics__subcmd__print_commands] )) ||
_lazaret__subcmd__help__subcmd__metrics__subcmd__print_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help metrics print commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__metrics__subcmd__serve_commands] )) ||
_lazaret__subcmd__help__subcmd__metrics__subcmd__serve_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help metrics serve commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__metrics__subcmd__write_commands] )) ||
_lazaret__subcmd__help__subcmd__metrics__subcmd__write_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help metrics write commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__policy_commands] )) ||
_lazaret__subcmd__help__subcmd__policy_commands() {
    local commands; commands=(
'check:Load and check a policy file, or policies for tool calls\: a *.cedar file or a directory of them' \
'schema:Print the JSON Schema, for editors' \
'show:Print a built-in policy' \
    )
    _describe -t commands 'lazaret help policy commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__policy__subcmd__check_commands] )) ||
_lazaret__subcmd__help__subcmd__policy__subcmd__check_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help policy check commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__policy__subcmd__schema_commands] )) ||
_lazaret__subcmd__help__subcmd__policy__subcmd__schema_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help policy schema commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__policy__subcmd__show_commands] )) ||
_lazaret__subcmd__help__subcmd__policy__subcmd__show_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help policy show commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__profile_commands] )) ||
_lazaret__subcmd__help__subcmd__profile_commands() {
    local commands; commands=(
'list:List the built-in profiles' \
'show:Print a profile' \
    )
    _describe -t commands 'lazaret help profile commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__profile__subcmd__list_commands] )) ||
_lazaret__subcmd__help__subcmd__profile__subcmd__list_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help profile list commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__profile__subcmd__show_commands] )) ||
_lazaret__subcmd__help__subcmd__profile__subcmd__show_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help profile show commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__run_commands] )) ||
_lazaret__subcmd__help__subcmd__run_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help run commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__srt_commands] )) ||
_lazaret__subcmd__help__subcmd__srt_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help srt commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__tool_commands] )) ||
_lazaret__subcmd__help__subcmd__tool_commands() {
    local commands; commands=(
'list:List the registered tools, and what is quarantined' \
'run:Run a registered tool in its sandbox; the result is JSON on standard output' \
'quarantine:Bar a tool from running' \
'release:Let a quarantined tool run again' \
    )
    _describe -t commands 'lazaret help tool commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__tool__subcmd__list_commands] )) ||
_lazaret__subcmd__help__subcmd__tool__subcmd__list_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help tool list commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__tool__subcmd__quarantine_commands] )) ||
_lazaret__subcmd__help__subcmd__tool__subcmd__quarantine_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help tool quarantine commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__tool__subcmd__release_commands] )) ||
_lazaret__subcmd__help__subcmd__tool__subcmd__release_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help tool release commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__help__subcmd__tool__subcmd__run_commands] )) ||
_lazaret__subcmd__help__subcmd__tool__subcmd__run_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret help tool run commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__launcher_commands] )) ||
_lazaret__subcmd__launcher_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret launcher commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__learn_commands] )) ||
_lazaret__subcmd__learn_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret learn commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__man_commands] )) ||
_lazaret__subcmd__man_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret man commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__mcp_commands] )) ||
_lazaret__subcmd__mcp_commands() {
    local commands; commands=(
'serve:Be one MCP server for the client\: each real server in a sandbox of its own, each call under a policy' \
'wrap:The same for a single server, without a file' \
'import:Make our list of servers from another client'\''s configuration' \
'explain:Say what would be decided about a call, and by which rule' \
'status:Show open sessions and their servers' \
'trust:Accept the tools of a server as they are now' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'lazaret mcp commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__mcp__subcmd__explain_commands] )) ||
_lazaret__subcmd__mcp__subcmd__explain_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret mcp explain commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__mcp__subcmd__help_commands] )) ||
_lazaret__subcmd__mcp__subcmd__help_commands() {
    local commands; commands=(
'serve:Be one MCP server for the client\: each real server in a sandbox of its own, each call under a policy' \
'wrap:The same for a single server, without a file' \
'import:Make our list of servers from another client'\''s configuration' \
'explain:Say what would be decided about a call, and by which rule' \
'status:Show open sessions and their servers' \
'trust:Accept the tools of a server as they are now' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'lazaret mcp help commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__mcp__subcmd__help__subcmd__explain_commands] )) ||
_lazaret__subcmd__mcp__subcmd__help__subcmd__explain_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret mcp help explain commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__mcp__subcmd__help__subcmd__help_commands] )) ||
_lazaret__subcmd__mcp__subcmd__help__subcmd__help_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret mcp help help commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__mcp__subcmd__help__subcmd__import_commands] )) ||
_lazaret__subcmd__mcp__subcmd__help__subcmd__import_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret mcp help import commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__mcp__subcmd__help__subcmd__serve_commands] )) ||
_lazaret__subcmd__mcp__subcmd__help__subcmd__serve_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret mcp help serve commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__mcp__subcmd__help__subcmd__status_commands] )) ||
_lazaret__subcmd__mcp__subcmd__help__subcmd__status_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret mcp help status commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__mcp__subcmd__help__subcmd__trust_commands] )) ||
_lazaret__subcmd__mcp__subcmd__help__subcmd__trust_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret mcp help trust commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__mcp__subcmd__help__subcmd__wrap_commands] )) ||
_lazaret__subcmd__mcp__subcmd__help__subcmd__wrap_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret mcp help wrap commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__mcp__subcmd__import_commands] )) ||
_lazaret__subcmd__mcp__subcmd__import_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret mcp import commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__mcp__subcmd__serve_commands] )) ||
_lazaret__subcmd__mcp__subcmd__serve_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret mcp serve commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__mcp__subcmd__status_commands] )) ||
_lazaret__subcmd__mcp__subcmd__status_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret mcp status commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__mcp__subcmd__trust_commands] )) ||
_lazaret__subcmd__mcp__subcmd__trust_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret mcp trust commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__mcp__subcmd__wrap_commands] )) ||
_lazaret__subcmd__mcp__subcmd__wrap_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret mcp wrap commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__metrics_commands] )) ||
_lazaret__subcmd__metrics_commands() {
    local commands; commands=(
'serve:Serve them over HTTP, for Prometheus to fetch' \
'print:Print them once' \
'write:Write them to a file, for the textfile collector of node_exporter' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'lazaret metrics commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__metrics__subcmd__help_commands] )) ||
_lazaret__subcmd__metrics__subcmd__help_commands() {
    local commands; commands=(
'serve:Serve them over HTTP, for Prometheus to fetch' \
'print:Print them once' \
'write:Write them to a file, for the textfile collector of node_exporter' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'lazaret metrics help commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__metrics__subcmd__help__subcmd__help_commands] )) ||
_lazaret__subcmd__metrics__subcmd__help__subcmd__help_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret metrics help help commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__metrics__subcmd__help__subcmd__print_commands] )) ||
_lazaret__subcmd__metrics__subcmd__help__subcmd__print_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret metrics help print commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__metrics__subcmd__help__subcmd__serve_commands] )) ||
_lazaret__subcmd__metrics__subcmd__help__subcmd__serve_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret metrics help serve commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__metrics__subcmd__help__subcmd__write_commands] )) ||
_lazaret__subcmd__metrics__subcmd__help__subcmd__write_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret metrics help write commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__metrics__subcmd__print_commands] )) ||
_lazaret__subcmd__metrics__subcmd__print_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret metrics print commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__metrics__subcmd__serve_commands] )) ||
_lazaret__subcmd__metrics__subcmd__serve_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret metrics serve commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__metrics__subcmd__write_commands] )) ||
_lazaret__subcmd__metrics__subcmd__write_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret metrics write commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__policy_commands] )) ||
_lazaret__subcmd__policy_commands() {
    local commands; commands=(
'check:Load and check a policy file, or policies for tool calls\: a *.cedar file or a directory of them' \
'schema:Print the JSON Schema, for editors' \
'show:Print a built-in policy' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'lazaret policy commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__policy__subcmd__check_commands] )) ||
_lazaret__subcmd__policy__subcmd__check_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret policy check commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__policy__subcmd__help_commands] )) ||
_lazaret__subcmd__policy__subcmd__help_commands() {
    local commands; commands=(
'check:Load and check a policy file, or policies for tool calls\: a *.cedar file or a directory of them' \
'schema:Print the JSON Schema, for editors' \
'show:Print a built-in policy' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'lazaret policy help commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__policy__subcmd__help__subcmd__check_commands] )) ||
_lazaret__subcmd__policy__subcmd__help__subcmd__check_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret policy help check commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__policy__subcmd__help__subcmd__help_commands] )) ||
_lazaret__subcmd__policy__subcmd__help__subcmd__help_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret policy help help commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__policy__subcmd__help__subcmd__schema_commands] )) ||
_lazaret__subcmd__policy__subcmd__help__subcmd__schema_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret policy help schema commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__policy__subcmd__help__subcmd__show_commands] )) ||
_lazaret__subcmd__policy__subcmd__help__subcmd__show_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret policy help show commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__policy__subcmd__schema_commands] )) ||
_lazaret__subcmd__policy__subcmd__schema_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret policy schema commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__policy__subcmd__show_commands] )) ||
_lazaret__subcmd__policy__subcmd__show_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret policy show commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__profile_commands] )) ||
_lazaret__subcmd__profile_commands() {
    local commands; commands=(
'list:List the built-in profiles' \
'show:Print a profile' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'lazaret profile commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__profile__subcmd__help_commands] )) ||
_lazaret__subcmd__profile__subcmd__help_commands() {
    local commands; commands=(
'list:List the built-in profiles' \
'show:Print a profile' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'lazaret profile help commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__profile__subcmd__help__subcmd__help_commands] )) ||
_lazaret__subcmd__profile__subcmd__help__subcmd__help_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret profile help help commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__profile__subcmd__help__subcmd__list_commands] )) ||
_lazaret__subcmd__profile__subcmd__help__subcmd__list_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret profile help list commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__profile__subcmd__help__subcmd__show_commands] )) ||
_lazaret__subcmd__profile__subcmd__help__subcmd__show_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret profile help show commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__profile__subcmd__list_commands] )) ||
_lazaret__subcmd__profile__subcmd__list_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret profile list commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__profile__subcmd__show_commands] )) ||
_lazaret__subcmd__profile__subcmd__show_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret profile show commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__run_commands] )) ||
_lazaret__subcmd__run_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret run commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__srt_commands] )) ||
_lazaret__subcmd__srt_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret srt commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__tool_commands] )) ||
_lazaret__subcmd__tool_commands() {
    local commands; commands=(
'list:List the registered tools, and what is quarantined' \
'run:Run a registered tool in its sandbox; the result is JSON on standard output' \
'quarantine:Bar a tool from running' \
'release:Let a quarantined tool run again' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'lazaret tool commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__tool__subcmd__help_commands] )) ||
_lazaret__subcmd__tool__subcmd__help_commands() {
    local commands; commands=(
'list:List the registered tools, and what is quarantined' \
'run:Run a registered tool in its sandbox; the result is JSON on standard output' \
'quarantine:Bar a tool from running' \
'release:Let a quarantined tool run again' \
'help:Print this message or the help of the given subcommand(s)' \
    )
    _describe -t commands 'lazaret tool help commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__tool__subcmd__help__subcmd__help_commands] )) ||
_lazaret__subcmd__tool__subcmd__help__subcmd__help_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret tool help help commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__tool__subcmd__help__subcmd__list_commands] )) ||
_lazaret__subcmd__tool__subcmd__help__subcmd__list_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret tool help list commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__tool__subcmd__help__subcmd__quarantine_commands] )) ||
_lazaret__subcmd__tool__subcmd__help__subcmd__quarantine_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret tool help quarantine commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__tool__subcmd__help__subcmd__release_commands] )) ||
_lazaret__subcmd__tool__subcmd__help__subcmd__release_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret tool help release commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__tool__subcmd__help__subcmd__run_commands] )) ||
_lazaret__subcmd__tool__subcmd__help__subcmd__run_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret tool help run commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__tool__subcmd__list_commands] )) ||
_lazaret__subcmd__tool__subcmd__list_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret tool list commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__tool__subcmd__quarantine_commands] )) ||
_lazaret__subcmd__tool__subcmd__quarantine_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret tool quarantine commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__tool__subcmd__release_commands] )) ||
_lazaret__subcmd__tool__subcmd__release_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret tool release commands' commands "$@"
}
(( $+functions[_lazaret__subcmd__tool__subcmd__run_commands] )) ||
_lazaret__subcmd__tool__subcmd__run_commands() {
    local commands; commands=()
    _describe -t commands 'lazaret tool run commands' commands "$@"
}

if [ "$funcstack[1]" = "_lazaret" ]; then
    _lazaret "$@"
else
    compdef _lazaret lazaret
fi
