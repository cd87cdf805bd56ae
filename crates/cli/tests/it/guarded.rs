//! With a denied name in a writable directory every open goes through the supervisor: programs must not
//! notice.

use crate::case::{Case, Outcome, Who, as_everybody, has_tool};

fn guarded(case: &Case, script: &str) -> Outcome {
    case.run(["--deny", ".env", "--timeout", "10s", "--", "bash", "-c", script])
}

#[test]
fn shells_redirect_and_substitute() {
    if !has_tool("bash") {
        return;
    }
    as_everybody(|case| {
        let script = "cat <(echo a) <(echo b); echo c | cat /dev/stdin; echo d | tee /dev/null; exec 5<>f; echo e >&5; \
                      cat /proc/self/fd/5; cat f - <<< g; echo h | (cat > k; cat k); : > /dev/null; cd /; cat $OLDPWD/k";
        guarded(case, script).exits(0).tells_nothing().prints("a\nb\nc\nd\ne\ne\ng\nh\nh");
    });
}

#[test]
fn files_are_copied_and_moved_into_directories() {
    if !has_tool("bash") {
        return;
    }
    as_everybody(|case| {
        let script = "set -e; mkdir -p d/e; echo x > f; cp f d; cp f d/; cp -r d g; mv f d/e/; mv d/e h; ln h/f i; rm -r d g; \
                      install -m 600 i j; mkdir k; cp -t k h/f i j; find . -type f | sort";
        guarded(case, script).exits(0).tells_nothing().prints("./h/f\n./i\n./j\n./k/f\n./k/i\n./k/j");
    });
}

#[test]
fn terminals_can_be_made() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let script = "import os, pty\nm, s = os.openpty(); print(os.ttyname(s).startswith('/dev/pts/'), flush=True)\n\
                      pty.spawn(['sh', '-c', 'echo x > /dev/tty'])";
        case.python(&["--deny", ".env"], script).exits(0).prints("True\nx");
    });
}

#[test]
fn a_fifo_that_waits_for_its_other_end_holds_up_nobody_else() {
    if !has_tool("bash") {
        return;
    }
    as_everybody(|case| {
        guarded(case, "mkfifo p; (sleep 0.1; echo through > p) & cat p; wait").exits(0).prints("through");
        let script =
            "mkfifo q; cat q & sleep 0.2; echo other > file; cat file; ls > /dev/null; echo go > q; wait";
        guarded(case, script).exits(0).prints("other\ngo");
    });
}

#[test]
fn flags_modes_and_errors_are_the_kernels_own() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let script = "
import errno, os, tempfile
def fails(*arguments, **more):
    try: os.open(*arguments, **more); return 'opened'
    except OSError as e: return errno.errorcode[e.errno]
with tempfile.TemporaryFile(dir='.') as f: f.write(b'x')
os.umask(0o027); os.close(os.open('made', os.O_CREAT | os.O_WRONLY, 0o666)); os.mkdir('dir', 0o777)
print(oct(os.stat('made').st_mode), oct(os.stat('dir').st_mode))
d = os.open('dir', os.O_RDONLY | os.O_DIRECTORY)
f = os.open('below', os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o644, dir_fd=d)
os.write(f, b'1'); os.lseek(f, 0, 0); os.write(f, b'2'); os.lseek(f, 0, 0); print(os.read(f, 9), os.get_inheritable(f))
print(fails('nonesuch', 0), fails('made', os.O_CREAT | os.O_EXCL), fails('made', os.O_DIRECTORY), fails('made/x', 0), fails('dir', os.O_WRONLY))
os.symlink('made', 'link'); os.symlink('loop', 'loop')
print(fails('link', os.O_NOFOLLOW), fails('loop', 0), fails('x' * 300, 0), fails('', 0))
print(open('/proc/self/comm').read().strip() == open(f'/proc/{os.getpid()}/comm').read().strip(), len(os.listdir('/proc/self/fd')) > 3)
os.rename('made', 'dir/moved'); os.link('dir/moved', 'hard'); os.truncate('hard', 7); print(os.stat('dir/moved').st_size, os.stat('hard').st_nlink)
os.unlink('hard'); os.unlink('dir/moved'); os.unlink('dir/below'); os.rmdir('dir'); os.unlink('link'); os.unlink('loop'); print(os.listdir('.'))";
        case.python(&["--deny", ".env"], script).exits(0).tells_nothing().prints(
            "0o100640 0o40750\nb'12' False\nENOENT EEXIST ENOTDIR ENOTDIR EISDIR\nELOOP ELOOP ENAMETOOLONG ENOENT\nTrue True\n7 2\n[]",
        );
    });
}

#[test]
fn a_directory_descriptor_that_is_not_open_is_a_bad_descriptor() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let script = "
import os
for act in [lambda: os.open('x', 0, dir_fd=999), lambda: os.mkdir('x', dir_fd=999), lambda: os.unlink('x', dir_fd=999)]:
    try: act(); print('done')
    except OSError as e: print(e.errno)";
        case.python(&["--deny", ".env"], script).exits(0).prints("9\n9\n9");
    });
}

#[test]
fn a_path_can_be_opened_without_its_content() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        case.file("file", "content");
        let script = "
import os
for path in ['.', 'file', '/etc', '/usr/bin/env']:
    f = os.open(path, os.O_PATH | os.O_CLOEXEC); os.fstat(f)
    try: os.read(f, 1); print('read')
    except OSError as e: print(e.errno)
d = os.open('.', os.O_PATH | os.O_DIRECTORY); print(os.read(os.open('file', 0, dir_fd=d), 9))";
        case.python(&["--deny", ".env"], script).exits(0).prints("9\n9\n9\n9\nb'content'");
    });
}

#[test]
fn init_is_not_asked_to_look_into_itself() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        // What the kernel refuses to the command must not be opened for it by the one that may.
        let script = "
import os
for name in ['maps', 'smaps', 'task/1/maps', 'environ', 'mem', 'auxv', 'fd', 'fd/0', 'fd/3', 'fdinfo', 'fdinfo/3', 'root/etc/hostname', 'cwd', 'root', 'pagemap', 'stack']:
    try: os.open('/proc/1/' + name, os.O_RDONLY); print(name)
    except OSError: pass";
        case.python(&[], script).exits(0).prints("");
        case.python(&["--deny", ".env"], script).exits(0).prints("");
    });
}

#[test]
fn many_processes_and_threads_open_at_once() {
    if !has_tool("python3") {
        return;
    }
    as_everybody(|case| {
        let script = "
import os, threading
def work(n):
    for i in range(50):
        name = f'{n}-{i}'
        with open(name, 'w') as f: f.write(name)
        with open(name) as f: assert f.read() == name
        os.rename(name, name + '.moved'); os.unlink(name + '.moved')
for p in range(3):
    if os.fork() == 0:
        threads = [threading.Thread(target=work, args=(f'{p}-{t}',)) for t in range(4)]
        [t.start() for t in threads]; [t.join() for t in threads]
        os._exit(0)
print([os.wait()[1] for p in range(3)], os.listdir('.'))";
        case.python(&["--deny", ".env"], script).exits(0).tells_nothing().prints("[0, 0, 0] []");
    });
}

#[test]
fn a_signal_interrupts_an_open_that_waits() {
    if !has_tool("bash") {
        return;
    }
    as_everybody(|case| {
        guarded(case, "mkfifo p; (cat p; echo not reached) & sleep 0.2; kill $!; wait $!; echo $?; echo x > file; cat file")
            .exits(0)
            .prints("143\nx");
    });
}

#[test]
fn git_and_the_compiler_work_beside_a_denied_name() {
    if !has_tool("git") || !has_tool("gcc") || !has_tool("make") {
        return;
    }
    as_everybody(|case| {
        case.file(".env", "SECRET");
        case.file("hello.c", "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n");
        case.file("Makefile", "hello: hello.c\n\tgcc -o $@ $<\n");
        let script = "make -s && ./hello && git init -q . && git add hello.c Makefile && \
                      git -c user.name=T -c user.email=t@example.com commit -q -m m && git log --format=%s && tar cf a.tar hello.c && tar tf a.tar";
        guarded(case, script).exits(0).prints("hello\nm\nhello.c");
        if case.who == Who::Other {
            guarded(case, "cp -r . /tmp/all; cat /tmp/all/.env").exits(1).prints("");
        }
    });
}
