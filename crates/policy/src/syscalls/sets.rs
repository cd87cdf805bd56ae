//! The two sets of calls that no policy changes: what every program needs to start and end, and what is
//! blocked at levels 1 and 2 whatever the policy says.

/// Allowed in WHITELIST mode without being listed, so that a program can be started, linked and ended.
///
/// Determined by tracing programs linked statically and dynamically against glibc and musl, with every
/// call outside the set failing with EPERM. Which files these calls reach is decided by the filesystem
/// wall, and which programs `execve` may start by `process.allowExec`.
pub const STARTUP: &[&str] = &[
    // The call that starts the command itself; the filter is already in place then.
    "execve",
    // The loader and the allocator of the C library lay out memory.
    "brk",
    "mmap",
    "mprotect",
    "munmap",
    // Thread-local storage and per-thread bookkeeping, set up before main().
    "arch_prctl",
    "rseq",
    "set_robust_list",
    "set_tid_address",
    // glibc ends the program when futex fails with anything unexpected.
    "futex",
    // The loader reads the shared libraries, static programs look up their own path.
    "access",
    "close",
    "faccessat",
    "faccessat2",
    "fstat",
    "newfstatat",
    "open",
    "openat",
    "pread64",
    "read",
    "readlink",
    "readlinkat",
    "statx",
    // Hash seeds and the allocator's canary.
    "getrandom",
    // The size of the stack.
    "prlimit64",
    // Rust's run-time ends the program unless it can ask whether descriptors 0 to 2 are open.
    "fcntl",
    "poll",
    "ppoll",
    // Shells and run-times install handlers and a signal stack; returning from one must never fail.
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sigaltstack",
    // Entered by the kernel's own doing when a stopped call is taken up again.
    "restart_syscall",
    // Who am I: facts the program is free to know, and shells refuse to start without.
    "getegid",
    "geteuid",
    "getgid",
    "getpgid",
    "getpgrp",
    "getpid",
    "getppid",
    "gettid",
    "getuid",
    "uname",
    // Real calls where the vDSO has no clock; run-times treat a failing clock as a broken machine.
    "clock_gettime",
    "gettimeofday",
    // The end.
    "exit",
    "exit_group",
];

/// Blocked at levels 1 and 2 under every policy: the list of RFC-0002 §8.2 and what later kernels added that
/// does the same. `clone` is missing because only its namespace flags are blocked.
pub const ALWAYS_BLOCKED: &[&str] = &[
    // Reading, writing or steering another process.
    "kcmp",
    "pidfd_getfd",
    "process_madvise",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    // Replacing the running kernel or stopping the machine.
    "kexec_file_load",
    "kexec_load",
    "reboot",
    // Code in the kernel.
    "bpf",
    "create_module",
    "delete_module",
    "finit_module",
    "get_kernel_syms",
    "init_module",
    "query_module",
    // File handles open files without walking the path, so no mount hides them.
    "name_to_handle_at",
    "open_by_handle_at",
    // Sees what the processor and other programs do; a long history of kernel bugs.
    "lookup_dcookie",
    "perf_event_open",
    // Stops the kernel in the middle of a copy, which turns small races into reliable ones.
    "userfaultfd",
    // Does the work of other calls where the filter does not see it.
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    // The mount table and the root, old interface and new.
    "chroot",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "mount",
    "mount_setattr",
    "move_mount",
    "open_tree",
    "open_tree_attr",
    "pivot_root",
    "umount2",
    // Other namespaces.
    "setns",
    "unshare",
    // Key rings are not separated by namespaces.
    "add_key",
    "keyctl",
    "request_key",
    // Settings of the whole machine.
    "_sysctl",
    "acct",
    "clock_settime",
    "ioperm",
    "iopl",
    "nfsservctl",
    "quotactl",
    "quotactl_fd",
    "setdomainname",
    "sethostname",
    "settimeofday",
    "swapoff",
    "swapon",
    "syslog",
    "vhangup",
    // Watches files of the whole mount, past the allowed paths.
    "fanotify_init",
    // Moves pages of other processes between nodes.
    "migrate_pages",
    "move_pages",
    // Memory that not even the kernel can look into.
    "memfd_secret",
    // Would change the very rules that confine the command.
    "lsm_set_self_attr",
    // Legacy nobody needs, kept in kernels with their bugs.
    "modify_ldt",
    "sysfs",
    "uselib",
];
