# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_lazaret_global_optspecs
    string join \n h/help V/version
end

function __fish_lazaret_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_lazaret_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_lazaret_using_subcommand
    set -l cmd (__fish_lazaret_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c lazaret -n "__fish_lazaret_needs_command" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_needs_command" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_needs_command" -f -a "run" -d 'Run a command in a sandbox'
complete -c lazaret -n "__fish_lazaret_needs_command" -f -a "srt" -d 'Run a command under the settings of srt (the same as when this program is called `srt`)'
complete -c lazaret -n "__fish_lazaret_needs_command" -f -a "learn" -d 'Run a command, watch it, and write the smallest policy that would have sufficed'
complete -c lazaret -n "__fish_lazaret_needs_command" -f -a "diff" -d 'Show what a run with --cow changed'
complete -c lazaret -n "__fish_lazaret_needs_command" -f -a "commit" -d 'Apply what a run with --cow changed to the host'
complete -c lazaret -n "__fish_lazaret_needs_command" -f -a "discard" -d 'Forget what a run with --cow changed'
complete -c lazaret -n "__fish_lazaret_needs_command" -f -a "tool" -d 'Run registered tools; bar them and let them run again'
complete -c lazaret -n "__fish_lazaret_needs_command" -f -a "escalation" -d 'See and answer what MCP sessions ask a person'
complete -c lazaret -n "__fish_lazaret_needs_command" -f -a "doctor" -d 'Say what this host can enforce, and how to get the rest'
complete -c lazaret -n "__fish_lazaret_needs_command" -f -a "policy" -d 'Check policies, print their schema or a built-in one'
complete -c lazaret -n "__fish_lazaret_needs_command" -f -a "profile" -d 'List and show the built-in profiles'
complete -c lazaret -n "__fish_lazaret_needs_command" -f -a "mcp" -d 'Put every MCP server into a sandbox of its own, and every call under a policy'
complete -c lazaret -n "__fish_lazaret_needs_command" -f -a "audit" -d 'Ask, follow, verify, rotate and export the audit log'
complete -c lazaret -n "__fish_lazaret_needs_command" -f -a "metrics" -d 'Tell in numbers what sandboxes do, for Prometheus and others'
complete -c lazaret -n "__fish_lazaret_needs_command" -f -a "bench" -d 'Measure start-up against bubblewrap, interleaved'
complete -c lazaret -n "__fish_lazaret_needs_command" -f -a "completions" -d 'Print completions for a shell'
complete -c lazaret -n "__fish_lazaret_needs_command" -f -a "launcher" -d 'Split off sandboxes for a program that uses lazaret as a library'
complete -c lazaret -n "__fish_lazaret_needs_command" -f -a "man" -d 'Write the man pages into a directory'
complete -c lazaret -n "__fish_lazaret_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -l policy -d 'Policy file, JSON or TOML' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -l profile -d 'Built-in profile' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -l level -d 'Isolation level: 0 none (needs the administrator\'s approval), 1 process, 2 full' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -l ro -d 'Make a path visible, read-only' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -l rw -d 'Make a path visible and writable' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -l deny -d 'Deny a path, also below an allowed one, also when it does not exist yet' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -l env -d 'Pass a variable through, or set it' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -l allow -d 'Let the command reach a host: a name, *.domain, an address or a network, each with :PORT if wanted' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -l allow-address -d 'Let allowed names lead to a private, loopback or otherwise guarded address' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -l resolve -d 'Pin a name to an address instead of asking the host\'s resolver' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -l publish -d 'Forward a loopback port of the host to a server inside' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -l memory -d 'Most memory (bytes, or with K, M, G)' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -l cpu-time -d 'Most CPU time (milliseconds, or with s, m, h)' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -l timeout -d 'Most wall-clock time; then SIGTERM, and after a grace period SIGKILL for everything' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -l max-procs -d 'Most processes and threads' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -l max-write -d 'Most that can be written to private storage and to any one file' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -l on-success -d 'With --cow: what becomes of the changes when the command succeeds [default: keep]' -r -f -a "commit\t'Apply them to the host'
keep\t'Keep them for `lazaret diff`, `commit` and `discard`'
discard\t'Throw them away'"
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -l tool -d 'The name under which an escape attempt bars this from running again' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -l on-escape -d 'What follows an escape attempt (default: kill at level 2)' -r -f -a "kill\t''
deny\t''"
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -l audit -d 'The audit log [default: $XDG_STATE_HOME/lazaret/audit.jsonl]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -l report -d 'Write a report as JSON' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -l cow -d 'Writable paths become copy-on-write: the host\'s files stay as they are until `commit`'
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -l enforce -d 'Refuse to run when a layer is missing (the default)'
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -l warn -d 'Run with the layers there are, and say what is weaker'
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -l plan -d 'Print the steps and start nothing'
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -l json -d 'With --plan: as JSON'
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lazaret -n "__fish_lazaret_using_subcommand run" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand srt" -s s -l settings -d 'The settings file [default: ~/.srt-settings.json, if it exists]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand srt" -s c -d 'A command line for the shell, as it is' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand srt" -l control-fd -d 'Read new settings from an inherited descriptor, a line of JSON each; their lists of hosts take effect' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand srt" -l audit -d 'The audit log [default: $XDG_STATE_HOME/lazaret/audit.jsonl]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand srt" -l report -d 'Write a report as JSON' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand srt" -s d -l debug -d 'Say what is done, on standard error'
complete -c lazaret -n "__fish_lazaret_using_subcommand srt" -l clean-env -d 'Pass only harmless variables on, not the whole environment'
complete -c lazaret -n "__fish_lazaret_using_subcommand srt" -l print-policy -d 'Print what the settings come to as a policy, and start nothing'
complete -c lazaret -n "__fish_lazaret_using_subcommand srt" -s V -l version -d 'Print the version'
complete -c lazaret -n "__fish_lazaret_using_subcommand srt" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand learn" -s o -l output -d 'Where the policy is written; - is standard output [default: lazaret-learned.toml]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand learn" -l name -d 'What the policy is called in its first line' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand learn" -l merge -d 'Allow what this learnt policy allows as well' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand learn" -l ro -d 'Make a path visible that is not anyway, read-only' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand learn" -l rw -d 'Make a path writable besides the current directory' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand learn" -l deny -d 'Deny a path, also below an allowed one' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand learn" -l env -d 'Pass a variable through, or set it; the policy does, too' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand learn" -l allow -d 'Let the command reach this host only; can be repeated [default: any public host]' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand learn" -l allow-address -d 'Let names lead to a private, loopback or otherwise guarded address' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand learn" -l resolve -d 'Pin a name to an address instead of asking the host\'s resolver' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand learn" -l timeout -d 'Most wall-clock time; then SIGTERM, and after a grace period SIGKILL for everything' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand learn" -l audit -d 'The audit log [default: $XDG_STATE_HOME/lazaret/audit.jsonl]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand learn" -l report -d 'Write a report of the run as JSON' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand learn" -l force -d 'Replace the file if it is there'
complete -c lazaret -n "__fish_lazaret_using_subcommand learn" -l no-network -d 'Without network'
complete -c lazaret -n "__fish_lazaret_using_subcommand learn" -l json -d 'Print what was learnt as JSON on standard output, after the command\'s own'
complete -c lazaret -n "__fish_lazaret_using_subcommand learn" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand learn" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand diff" -l stat -d 'One line for each change'
complete -c lazaret -n "__fish_lazaret_using_subcommand diff" -l list -d 'List all transactions instead'
complete -c lazaret -n "__fish_lazaret_using_subcommand diff" -l json
complete -c lazaret -n "__fish_lazaret_using_subcommand diff" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand diff" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand commit" -l include-persistence -d 'Also apply what acts on the next run: git hooks, CI files, build scripts, settings'
complete -c lazaret -n "__fish_lazaret_using_subcommand commit" -l leave-conflicts -d 'Leave out what has changed on the host meanwhile, and apply the rest'
complete -c lazaret -n "__fish_lazaret_using_subcommand commit" -l json
complete -c lazaret -n "__fish_lazaret_using_subcommand commit" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand commit" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand discard" -l json
complete -c lazaret -n "__fish_lazaret_using_subcommand discard" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand discard" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand tool; and not __fish_seen_subcommand_from list run quarantine release help" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand tool; and not __fish_seen_subcommand_from list run quarantine release help" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand tool; and not __fish_seen_subcommand_from list run quarantine release help" -f -a "list" -d 'List the registered tools, and what is quarantined'
complete -c lazaret -n "__fish_lazaret_using_subcommand tool; and not __fish_seen_subcommand_from list run quarantine release help" -f -a "run" -d 'Run a registered tool in its sandbox; the result is JSON on standard output'
complete -c lazaret -n "__fish_lazaret_using_subcommand tool; and not __fish_seen_subcommand_from list run quarantine release help" -f -a "quarantine" -d 'Bar a tool from running'
complete -c lazaret -n "__fish_lazaret_using_subcommand tool; and not __fish_seen_subcommand_from list run quarantine release help" -f -a "release" -d 'Let a quarantined tool run again'
complete -c lazaret -n "__fish_lazaret_using_subcommand tool; and not __fish_seen_subcommand_from list run quarantine release help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c lazaret -n "__fish_lazaret_using_subcommand tool; and __fish_seen_subcommand_from list" -l json
complete -c lazaret -n "__fish_lazaret_using_subcommand tool; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand tool; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand tool; and __fish_seen_subcommand_from run" -l input -d 'The input: JSON, or @FILE, or - for standard input [default: {}]' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand tool; and __fish_seen_subcommand_from run" -l audit -d 'The audit log [default: $XDG_STATE_HOME/lazaret/audit.jsonl]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand tool; and __fish_seen_subcommand_from run" -l json -d 'The result is JSON in any case'
complete -c lazaret -n "__fish_lazaret_using_subcommand tool; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand tool; and __fish_seen_subcommand_from run" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand tool; and __fish_seen_subcommand_from quarantine" -l reason -r
complete -c lazaret -n "__fish_lazaret_using_subcommand tool; and __fish_seen_subcommand_from quarantine" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand tool; and __fish_seen_subcommand_from quarantine" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand tool; and __fish_seen_subcommand_from release" -l reason -d 'Why it may run again; goes into the audit log' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand tool; and __fish_seen_subcommand_from release" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand tool; and __fish_seen_subcommand_from release" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand tool; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the registered tools, and what is quarantined'
complete -c lazaret -n "__fish_lazaret_using_subcommand tool; and __fish_seen_subcommand_from help" -f -a "run" -d 'Run a registered tool in its sandbox; the result is JSON on standard output'
complete -c lazaret -n "__fish_lazaret_using_subcommand tool; and __fish_seen_subcommand_from help" -f -a "quarantine" -d 'Bar a tool from running'
complete -c lazaret -n "__fish_lazaret_using_subcommand tool; and __fish_seen_subcommand_from help" -f -a "release" -d 'Let a quarantined tool run again'
complete -c lazaret -n "__fish_lazaret_using_subcommand tool; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and not __fish_seen_subcommand_from list show approve deny watch help" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and not __fish_seen_subcommand_from list show approve deny watch help" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and not __fish_seen_subcommand_from list show approve deny watch help" -f -a "list" -d 'List the questions that wait for an answer'
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and not __fish_seen_subcommand_from list show approve deny watch help" -f -a "show" -d 'Show everything about a question'
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and not __fish_seen_subcommand_from list show approve deny watch help" -f -a "approve" -d 'Let a call be made'
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and not __fish_seen_subcommand_from list show approve deny watch help" -f -a "deny" -d 'Refuse a call'
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and not __fish_seen_subcommand_from list show approve deny watch help" -f -a "watch" -d 'Show questions as they come, and answer them with single keys'
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and not __fish_seen_subcommand_from list show approve deny watch help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from list" -l session -d 'Of one session: its id, the beginning of it, or its directory' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from list" -l json
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from show" -l json
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from show" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from approve" -l scope -r -f -a "once\t'This call'
session\t'Calls like it until the session ends'"
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from approve" -l candidate -d 'For the session, in this of the ways that `show` lists [default: 1]' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from approve" -l note -d 'Goes into the record' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from approve" -l session -d 'Calls like it, too, until the session ends: the same as --scope session'
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from approve" -l json
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from approve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from approve" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from deny" -l reason -d 'The agent is told' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from deny" -l json
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from deny" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from deny" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from watch" -l session -d 'Of one session: its id, the beginning of it, or its directory' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from watch" -l json -d 'One question in a line'
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from watch" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from watch" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the questions that wait for an answer'
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show everything about a question'
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from help" -f -a "approve" -d 'Let a call be made'
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from help" -f -a "deny" -d 'Refuse a call'
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from help" -f -a "watch" -d 'Show questions as they come, and answer them with single keys'
complete -c lazaret -n "__fish_lazaret_using_subcommand escalation; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c lazaret -n "__fish_lazaret_using_subcommand doctor" -l json -d 'Machine-readable output'
complete -c lazaret -n "__fish_lazaret_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand doctor" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand policy; and not __fish_seen_subcommand_from check schema show help" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand policy; and not __fish_seen_subcommand_from check schema show help" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand policy; and not __fish_seen_subcommand_from check schema show help" -f -a "check" -d 'Load and check a policy file, or policies for tool calls: a *.cedar file or a directory of them'
complete -c lazaret -n "__fish_lazaret_using_subcommand policy; and not __fish_seen_subcommand_from check schema show help" -f -a "schema" -d 'Print the JSON Schema, for editors'
complete -c lazaret -n "__fish_lazaret_using_subcommand policy; and not __fish_seen_subcommand_from check schema show help" -f -a "show" -d 'Print a built-in policy'
complete -c lazaret -n "__fish_lazaret_using_subcommand policy; and not __fish_seen_subcommand_from check schema show help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c lazaret -n "__fish_lazaret_using_subcommand policy; and __fish_seen_subcommand_from check" -l tools -d 'Check policies for tool calls against these tools as well: a JSON array of what servers list' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand policy; and __fish_seen_subcommand_from check" -l json
complete -c lazaret -n "__fish_lazaret_using_subcommand policy; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand policy; and __fish_seen_subcommand_from check" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand policy; and __fish_seen_subcommand_from schema" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand policy; and __fish_seen_subcommand_from schema" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand policy; and __fish_seen_subcommand_from show" -l json -d 'As JSON instead of TOML'
complete -c lazaret -n "__fish_lazaret_using_subcommand policy; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand policy; and __fish_seen_subcommand_from show" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand policy; and __fish_seen_subcommand_from help" -f -a "check" -d 'Load and check a policy file, or policies for tool calls: a *.cedar file or a directory of them'
complete -c lazaret -n "__fish_lazaret_using_subcommand policy; and __fish_seen_subcommand_from help" -f -a "schema" -d 'Print the JSON Schema, for editors'
complete -c lazaret -n "__fish_lazaret_using_subcommand policy; and __fish_seen_subcommand_from help" -f -a "show" -d 'Print a built-in policy'
complete -c lazaret -n "__fish_lazaret_using_subcommand policy; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c lazaret -n "__fish_lazaret_using_subcommand profile; and not __fish_seen_subcommand_from list show help" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand profile; and not __fish_seen_subcommand_from list show help" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand profile; and not __fish_seen_subcommand_from list show help" -f -a "list" -d 'List the built-in profiles'
complete -c lazaret -n "__fish_lazaret_using_subcommand profile; and not __fish_seen_subcommand_from list show help" -f -a "show" -d 'Print a profile'
complete -c lazaret -n "__fish_lazaret_using_subcommand profile; and not __fish_seen_subcommand_from list show help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c lazaret -n "__fish_lazaret_using_subcommand profile; and __fish_seen_subcommand_from list" -l json
complete -c lazaret -n "__fish_lazaret_using_subcommand profile; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand profile; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand profile; and __fish_seen_subcommand_from show" -l json -d 'As JSON instead of TOML'
complete -c lazaret -n "__fish_lazaret_using_subcommand profile; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand profile; and __fish_seen_subcommand_from show" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand profile; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the built-in profiles'
complete -c lazaret -n "__fish_lazaret_using_subcommand profile; and __fish_seen_subcommand_from help" -f -a "show" -d 'Print a profile'
complete -c lazaret -n "__fish_lazaret_using_subcommand profile; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and not __fish_seen_subcommand_from serve wrap import explain status trust help" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and not __fish_seen_subcommand_from serve wrap import explain status trust help" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and not __fish_seen_subcommand_from serve wrap import explain status trust help" -f -a "serve" -d 'Be one MCP server for the client: each real server in a sandbox of its own, each call under a policy'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and not __fish_seen_subcommand_from serve wrap import explain status trust help" -f -a "wrap" -d 'The same for a single server, without a file'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and not __fish_seen_subcommand_from serve wrap import explain status trust help" -f -a "import" -d 'Make our list of servers from another client\'s configuration'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and not __fish_seen_subcommand_from serve wrap import explain status trust help" -f -a "explain" -d 'Say what would be decided about a call, and by which rule'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and not __fish_seen_subcommand_from serve wrap import explain status trust help" -f -a "status" -d 'Show open sessions and their servers'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and not __fish_seen_subcommand_from serve wrap import explain status trust help" -f -a "trust" -d 'Accept the tools of a server as they are now'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and not __fish_seen_subcommand_from serve wrap import explain status trust help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from serve" -l config -d 'The list of servers [default: $XDG_CONFIG_HOME/lazaret/mcp-servers.json]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from serve" -l session -d 'The directory that servers may write in [default: a new one for each session]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from serve" -l policy -d 'A directory of *.cedar files that decide on calls [default: $XDG_CONFIG_HOME/lazaret/mcp-policy if it has any, else the built-in policy]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from serve" -l audit -d 'The audit log [default: $XDG_STATE_HOME/lazaret/audit.jsonl]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from serve" -l http -d 'Serve streamable HTTP on a loopback address instead; port 0 takes a free one' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from serve" -l token-file -d 'With --http: the file with the bearer token; made if it is missing [default: in the state directory]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from serve" -l allow-origin -d 'With --http: also accept requests of pages from this origin' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from serve" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from serve" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from wrap" -l name -d 'The name under which policies and the log know it [default: the command\'s]' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from wrap" -l allow-write -d 'Let it write here as well' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from wrap" -l deny-read -d 'Hide this from it as well' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from wrap" -l allow -d 'Let it reach a host: a name or *.domain' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from wrap" -l env -d 'Pass a variable through, or set it' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from wrap" -l session -d 'The directory that servers may write in [default: a new one for each session]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from wrap" -l policy -d 'A directory of *.cedar files that decide on calls [default: $XDG_CONFIG_HOME/lazaret/mcp-policy if it has any, else the built-in policy]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from wrap" -l audit -d 'The audit log [default: $XDG_STATE_HOME/lazaret/audit.jsonl]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from wrap" -l warn -d 'Where no sandbox can be had, run without one and say so'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from wrap" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from wrap" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from import" -s o -l output -d 'Where the list is written; - is standard output [default: $XDG_CONFIG_HOME/lazaret/mcp-servers.json]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from import" -l name -d 'What the client is to call the proxy' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from import" -l force -d 'Replace the list if it is there'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from import" -l json -d 'Say what was done as JSON'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from import" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from import" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from explain" -l config -d 'The list of servers [default: $XDG_CONFIG_HOME/lazaret/mcp-servers.json]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from explain" -l session -d 'The directory that servers may write in [default: a new one for each session]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from explain" -l policy -d 'A directory of *.cedar files that decide on calls [default: $XDG_CONFIG_HOME/lazaret/mcp-policy if it has any, else the built-in policy]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from explain" -l audit -d 'The audit log [default: $XDG_STATE_HOME/lazaret/audit.jsonl]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from explain" -l json
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from explain" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from explain" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from status" -l json
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from status" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from status" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from trust" -l config -d 'The list of servers [default: $XDG_CONFIG_HOME/lazaret/mcp-servers.json]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from trust" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from trust" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from help" -f -a "serve" -d 'Be one MCP server for the client: each real server in a sandbox of its own, each call under a policy'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from help" -f -a "wrap" -d 'The same for a single server, without a file'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from help" -f -a "import" -d 'Make our list of servers from another client\'s configuration'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from help" -f -a "explain" -d 'Say what would be decided about a call, and by which rule'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from help" -f -a "status" -d 'Show open sessions and their servers'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from help" -f -a "trust" -d 'Accept the tools of a server as they are now'
complete -c lazaret -n "__fish_lazaret_using_subcommand mcp; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and not __fish_seen_subcommand_from verify query tail stats show export rotate help" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and not __fish_seen_subcommand_from verify query tail stats show export rotate help" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and not __fish_seen_subcommand_from verify query tail stats show export rotate help" -f -a "verify" -d 'Check the hash chain over all files; names the first broken line'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and not __fish_seen_subcommand_from verify query tail stats show export rotate help" -f -a "query" -d 'Print the events that are asked for'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and not __fish_seen_subcommand_from verify query tail stats show export rotate help" -f -a "tail" -d 'Print the last events, and those that arrive'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and not __fish_seen_subcommand_from verify query tail stats show export rotate help" -f -a "stats" -d 'Count events, hosts, paths, system calls, tools and outcomes'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and not __fish_seen_subcommand_from verify query tail stats show export rotate help" -f -a "show" -d 'Tell what happened in one sandbox, from its beginning to its end'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and not __fish_seen_subcommand_from verify query tail stats show export rotate help" -f -a "export" -d 'Write events into a database of SQLite, or as CSV'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and not __fish_seen_subcommand_from verify query tail stats show export rotate help" -f -a "rotate" -d 'Set the log aside and go on in a new file, with the same chain'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and not __fish_seen_subcommand_from verify query tail stats show export rotate help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from verify" -l json
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from verify" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from verify" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from query" -l since -d 'From this moment on: 2h, 30m, 7d ago, a date, or a time as in RFC 3339 (UTC)' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from query" -l until -d 'Before this moment' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from query" -l sandbox -d 'Of a sandbox, by its id or the beginning of it' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from query" -l event -d 'Of this kind; more than once for several: policy-violation and POLICY_VIOLATION are the same' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from query" -l severity -d 'At least so grave: low, medium, high, critical' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from query" -l host -d 'About this host, or *.domain for all below a domain' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from query" -l path -d 'About this path, or anything below it' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from query" -l tool -d 'Of a tool (behind the proxy also SERVER/TOOL): events that name it, and all of its sandboxes' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from query" -l file -d 'The log [default: $XDG_STATE_HOME/lazaret/audit.jsonl]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from query" -l limit -d 'So many at most' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from query" -l reverse -d 'The newest first'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from query" -l json -d 'One event in a line, exactly as in the log'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from query" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from query" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from tail" -l since -d 'From this moment on: 2h, 30m, 7d ago, a date, or a time as in RFC 3339 (UTC)' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from tail" -l until -d 'Before this moment' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from tail" -l sandbox -d 'Of a sandbox, by its id or the beginning of it' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from tail" -l event -d 'Of this kind; more than once for several: policy-violation and POLICY_VIOLATION are the same' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from tail" -l severity -d 'At least so grave: low, medium, high, critical' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from tail" -l host -d 'About this host, or *.domain for all below a domain' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from tail" -l path -d 'About this path, or anything below it' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from tail" -l tool -d 'Of a tool (behind the proxy also SERVER/TOOL): events that name it, and all of its sandboxes' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from tail" -l file -d 'The log [default: $XDG_STATE_HOME/lazaret/audit.jsonl]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from tail" -s n -l lines -d 'So many of the last events that are asked for' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from tail" -s f -l follow -d 'Go on with what arrives, also when the log is rotated'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from tail" -l json -d 'One event in a line, exactly as in the log'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from tail" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from tail" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from stats" -l since -d 'From this moment on: 2h, 30m, 7d ago, a date, or a time as in RFC 3339 (UTC)' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from stats" -l until -d 'Before this moment' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from stats" -l sandbox -d 'Of a sandbox, by its id or the beginning of it' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from stats" -l event -d 'Of this kind; more than once for several: policy-violation and POLICY_VIOLATION are the same' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from stats" -l severity -d 'At least so grave: low, medium, high, critical' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from stats" -l host -d 'About this host, or *.domain for all below a domain' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from stats" -l path -d 'About this path, or anything below it' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from stats" -l tool -d 'Of a tool (behind the proxy also SERVER/TOOL): events that name it, and all of its sandboxes' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from stats" -l file -d 'The log [default: $XDG_STATE_HOME/lazaret/audit.jsonl]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from stats" -l top -d 'So many hosts, paths, calls and tools at most' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from stats" -l json
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from stats" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from stats" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from show" -l file -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from show" -l json -d 'One event in a line, exactly as in the log'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from show" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from export" -l since -d 'From this moment on: 2h, 30m, 7d ago, a date, or a time as in RFC 3339 (UTC)' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from export" -l until -d 'Before this moment' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from export" -l sandbox -d 'Of a sandbox, by its id or the beginning of it' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from export" -l event -d 'Of this kind; more than once for several: policy-violation and POLICY_VIOLATION are the same' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from export" -l severity -d 'At least so grave: low, medium, high, critical' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from export" -l host -d 'About this host, or *.domain for all below a domain' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from export" -l path -d 'About this path, or anything below it' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from export" -l tool -d 'Of a tool (behind the proxy also SERVER/TOOL): events that name it, and all of its sandboxes' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from export" -l file -d 'The log [default: $XDG_STATE_HOME/lazaret/audit.jsonl]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from export" -l sqlite -d 'Write a database of SQLite' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from export" -l csv -d 'Write comma-separated values; - is standard output' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from export" -l force -d 'Replace a file that is there'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from export" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from export" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from rotate" -l keep -d 'Keep so many files that were set aside, and remove older ones [default: as config.toml says, else all]' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from rotate" -l file -d 'The log [default: $XDG_STATE_HOME/lazaret/audit.jsonl]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from rotate" -l json
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from rotate" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from rotate" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from help" -f -a "verify" -d 'Check the hash chain over all files; names the first broken line'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from help" -f -a "query" -d 'Print the events that are asked for'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from help" -f -a "tail" -d 'Print the last events, and those that arrive'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from help" -f -a "stats" -d 'Count events, hosts, paths, system calls, tools and outcomes'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from help" -f -a "show" -d 'Tell what happened in one sandbox, from its beginning to its end'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from help" -f -a "export" -d 'Write events into a database of SQLite, or as CSV'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from help" -f -a "rotate" -d 'Set the log aside and go on in a new file, with the same chain'
complete -c lazaret -n "__fish_lazaret_using_subcommand audit; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c lazaret -n "__fish_lazaret_using_subcommand metrics; and not __fish_seen_subcommand_from serve print write help" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand metrics; and not __fish_seen_subcommand_from serve print write help" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand metrics; and not __fish_seen_subcommand_from serve print write help" -f -a "serve" -d 'Serve them over HTTP, for Prometheus to fetch'
complete -c lazaret -n "__fish_lazaret_using_subcommand metrics; and not __fish_seen_subcommand_from serve print write help" -f -a "print" -d 'Print them once'
complete -c lazaret -n "__fish_lazaret_using_subcommand metrics; and not __fish_seen_subcommand_from serve print write help" -f -a "write" -d 'Write them to a file, for the textfile collector of node_exporter'
complete -c lazaret -n "__fish_lazaret_using_subcommand metrics; and not __fish_seen_subcommand_from serve print write help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c lazaret -n "__fish_lazaret_using_subcommand metrics; and __fish_seen_subcommand_from serve" -l listen -d 'Where to listen; port 0 takes any that is free' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand metrics; and __fish_seen_subcommand_from serve" -l audit -d 'The audit log [default: $XDG_STATE_HOME/lazaret/audit.jsonl]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand metrics; and __fish_seen_subcommand_from serve" -l per-sandbox -d 'Tell so many of the newest sandboxes one by one; at most 100' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand metrics; and __fish_seen_subcommand_from serve" -l dangerously-listen-anywhere -d 'Allow an address that others than this machine can reach. Nobody is asked who they are'
complete -c lazaret -n "__fish_lazaret_using_subcommand metrics; and __fish_seen_subcommand_from serve" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand metrics; and __fish_seen_subcommand_from serve" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand metrics; and __fish_seen_subcommand_from print" -l audit -d 'The audit log [default: $XDG_STATE_HOME/lazaret/audit.jsonl]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand metrics; and __fish_seen_subcommand_from print" -l per-sandbox -d 'Tell so many of the newest sandboxes one by one; at most 100' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand metrics; and __fish_seen_subcommand_from print" -l json
complete -c lazaret -n "__fish_lazaret_using_subcommand metrics; and __fish_seen_subcommand_from print" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand metrics; and __fish_seen_subcommand_from print" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand metrics; and __fish_seen_subcommand_from write" -l textfile -d 'The file; node_exporter reads those that end in .prom' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand metrics; and __fish_seen_subcommand_from write" -l every -d 'Write again and again, after this time (milliseconds, or with s, m, h)' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand metrics; and __fish_seen_subcommand_from write" -l audit -d 'The audit log [default: $XDG_STATE_HOME/lazaret/audit.jsonl]' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand metrics; and __fish_seen_subcommand_from write" -l per-sandbox -d 'Tell so many of the newest sandboxes one by one; at most 100' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand metrics; and __fish_seen_subcommand_from write" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand metrics; and __fish_seen_subcommand_from write" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand metrics; and __fish_seen_subcommand_from help" -f -a "serve" -d 'Serve them over HTTP, for Prometheus to fetch'
complete -c lazaret -n "__fish_lazaret_using_subcommand metrics; and __fish_seen_subcommand_from help" -f -a "print" -d 'Print them once'
complete -c lazaret -n "__fish_lazaret_using_subcommand metrics; and __fish_seen_subcommand_from help" -f -a "write" -d 'Write them to a file, for the textfile collector of node_exporter'
complete -c lazaret -n "__fish_lazaret_using_subcommand metrics; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c lazaret -n "__fish_lazaret_using_subcommand bench" -l runs -d 'Launches of each' -r
complete -c lazaret -n "__fish_lazaret_using_subcommand bench" -l against -d 'Other lazaret executables to measure beside this one' -r -F
complete -c lazaret -n "__fish_lazaret_using_subcommand bench" -l json
complete -c lazaret -n "__fish_lazaret_using_subcommand bench" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand bench" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand completions" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand completions" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand launcher" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand launcher" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand man" -s h -l help -d 'Print help'
complete -c lazaret -n "__fish_lazaret_using_subcommand man" -s V -l version -d 'Print version'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and not __fish_seen_subcommand_from run srt learn diff commit discard tool escalation doctor policy profile mcp audit metrics bench completions launcher man help" -f -a "run" -d 'Run a command in a sandbox'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and not __fish_seen_subcommand_from run srt learn diff commit discard tool escalation doctor policy profile mcp audit metrics bench completions launcher man help" -f -a "srt" -d 'Run a command under the settings of srt (the same as when this program is called `srt`)'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and not __fish_seen_subcommand_from run srt learn diff commit discard tool escalation doctor policy profile mcp audit metrics bench completions launcher man help" -f -a "learn" -d 'Run a command, watch it, and write the smallest policy that would have sufficed'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and not __fish_seen_subcommand_from run srt learn diff commit discard tool escalation doctor policy profile mcp audit metrics bench completions launcher man help" -f -a "diff" -d 'Show what a run with --cow changed'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and not __fish_seen_subcommand_from run srt learn diff commit discard tool escalation doctor policy profile mcp audit metrics bench completions launcher man help" -f -a "commit" -d 'Apply what a run with --cow changed to the host'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and not __fish_seen_subcommand_from run srt learn diff commit discard tool escalation doctor policy profile mcp audit metrics bench completions launcher man help" -f -a "discard" -d 'Forget what a run with --cow changed'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and not __fish_seen_subcommand_from run srt learn diff commit discard tool escalation doctor policy profile mcp audit metrics bench completions launcher man help" -f -a "tool" -d 'Run registered tools; bar them and let them run again'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and not __fish_seen_subcommand_from run srt learn diff commit discard tool escalation doctor policy profile mcp audit metrics bench completions launcher man help" -f -a "escalation" -d 'See and answer what MCP sessions ask a person'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and not __fish_seen_subcommand_from run srt learn diff commit discard tool escalation doctor policy profile mcp audit metrics bench completions launcher man help" -f -a "doctor" -d 'Say what this host can enforce, and how to get the rest'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and not __fish_seen_subcommand_from run srt learn diff commit discard tool escalation doctor policy profile mcp audit metrics bench completions launcher man help" -f -a "policy" -d 'Check policies, print their schema or a built-in one'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and not __fish_seen_subcommand_from run srt learn diff commit discard tool escalation doctor policy profile mcp audit metrics bench completions launcher man help" -f -a "profile" -d 'List and show the built-in profiles'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and not __fish_seen_subcommand_from run srt learn diff commit discard tool escalation doctor policy profile mcp audit metrics bench completions launcher man help" -f -a "mcp" -d 'Put every MCP server into a sandbox of its own, and every call under a policy'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and not __fish_seen_subcommand_from run srt learn diff commit discard tool escalation doctor policy profile mcp audit metrics bench completions launcher man help" -f -a "audit" -d 'Ask, follow, verify, rotate and export the audit log'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and not __fish_seen_subcommand_from run srt learn diff commit discard tool escalation doctor policy profile mcp audit metrics bench completions launcher man help" -f -a "metrics" -d 'Tell in numbers what sandboxes do, for Prometheus and others'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and not __fish_seen_subcommand_from run srt learn diff commit discard tool escalation doctor policy profile mcp audit metrics bench completions launcher man help" -f -a "bench" -d 'Measure start-up against bubblewrap, interleaved'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and not __fish_seen_subcommand_from run srt learn diff commit discard tool escalation doctor policy profile mcp audit metrics bench completions launcher man help" -f -a "completions" -d 'Print completions for a shell'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and not __fish_seen_subcommand_from run srt learn diff commit discard tool escalation doctor policy profile mcp audit metrics bench completions launcher man help" -f -a "launcher" -d 'Split off sandboxes for a program that uses lazaret as a library'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and not __fish_seen_subcommand_from run srt learn diff commit discard tool escalation doctor policy profile mcp audit metrics bench completions launcher man help" -f -a "man" -d 'Write the man pages into a directory'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and not __fish_seen_subcommand_from run srt learn diff commit discard tool escalation doctor policy profile mcp audit metrics bench completions launcher man help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from tool" -f -a "list" -d 'List the registered tools, and what is quarantined'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from tool" -f -a "run" -d 'Run a registered tool in its sandbox; the result is JSON on standard output'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from tool" -f -a "quarantine" -d 'Bar a tool from running'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from tool" -f -a "release" -d 'Let a quarantined tool run again'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from escalation" -f -a "list" -d 'List the questions that wait for an answer'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from escalation" -f -a "show" -d 'Show everything about a question'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from escalation" -f -a "approve" -d 'Let a call be made'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from escalation" -f -a "deny" -d 'Refuse a call'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from escalation" -f -a "watch" -d 'Show questions as they come, and answer them with single keys'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from policy" -f -a "check" -d 'Load and check a policy file, or policies for tool calls: a *.cedar file or a directory of them'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from policy" -f -a "schema" -d 'Print the JSON Schema, for editors'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from policy" -f -a "show" -d 'Print a built-in policy'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from profile" -f -a "list" -d 'List the built-in profiles'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from profile" -f -a "show" -d 'Print a profile'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from mcp" -f -a "serve" -d 'Be one MCP server for the client: each real server in a sandbox of its own, each call under a policy'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from mcp" -f -a "wrap" -d 'The same for a single server, without a file'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from mcp" -f -a "import" -d 'Make our list of servers from another client\'s configuration'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from mcp" -f -a "explain" -d 'Say what would be decided about a call, and by which rule'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from mcp" -f -a "status" -d 'Show open sessions and their servers'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from mcp" -f -a "trust" -d 'Accept the tools of a server as they are now'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from audit" -f -a "verify" -d 'Check the hash chain over all files; names the first broken line'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from audit" -f -a "query" -d 'Print the events that are asked for'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from audit" -f -a "tail" -d 'Print the last events, and those that arrive'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from audit" -f -a "stats" -d 'Count events, hosts, paths, system calls, tools and outcomes'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from audit" -f -a "show" -d 'Tell what happened in one sandbox, from its beginning to its end'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from audit" -f -a "export" -d 'Write events into a database of SQLite, or as CSV'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from audit" -f -a "rotate" -d 'Set the log aside and go on in a new file, with the same chain'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from metrics" -f -a "serve" -d 'Serve them over HTTP, for Prometheus to fetch'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from metrics" -f -a "print" -d 'Print them once'
complete -c lazaret -n "__fish_lazaret_using_subcommand help; and __fish_seen_subcommand_from metrics" -f -a "write" -d 'Write them to a file, for the textfile collector of node_exporter'
