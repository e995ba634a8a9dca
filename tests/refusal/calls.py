"""What the library may import, and how each function says that the kernel refused it.

A function that the library imports and that is in neither table fails the harness: whoever adds one says here what
its manual names. Left out of all: EFAULT, since a wrong address is the caller's fault and no refusal."""

# A filter of system calls (seccomp) answers any of them; these are what container managers let it say.
FILTERED = ("EPERM", "ENOSYS")

# Forms: how a refusal looks. `minus`: -1 and errno; `null`: NULL (and errno); `code`: the errno is the result; `zero`:
# 0, as a short fwrite; `after`: the call is made, and then answered -1, as close and calls done in part; `half`: half
# of the bytes are read or written, and no errno is set.
MINUS, NULL, CODE, ZERO, AFTER, HALF = "minus", "null", "code", "zero", "after", "half"


def _row(form, errnos, filtered=True, also=()):
    """The pairs (form, errno's name) of a function; `also` are further pairs."""
    names = dict.fromkeys(errnos.split() + list(FILTERED if filtered else ()))
    return tuple((form, name) for name in names) + tuple(also)


_PATH = "EACCES ELOOP ENAMETOOLONG ENOENT ENOMEM ENOTDIR EIO "
_STAT = _row(MINUS, _PATH + "EBADF EOVERFLOW")
_READ = _row(MINUS, "EAGAIN EBADF EINTR EINVAL EIO EISDIR", also=[(HALF, "short")])
_WRITE = _row(MINUS, "EAGAIN EBADF EDQUOT EFBIG EINTR EINVAL EIO ENOSPC EPIPE EDESTADDRREQ", also=[(HALF, "short")])
_OPEN = _row(MINUS, _PATH + "EBUSY EDQUOT EEXIST EFBIG EINTR EINVAL EISDIR EMFILE ENFILE ENODEV ENOSPC ENXIO "
             "EOPNOTSUPP EOVERFLOW EROFS ETXTBSY EWOULDBLOCK EBADF")
_UNLINK = _row(MINUS, _PATH + "EBUSY EISDIR EROFS EBADF EINVAL")
_RENAME = _row(MINUS, _PATH + "EBUSY EDQUOT EEXIST EINVAL EISDIR EMLINK ENOSPC ENOTEMPTY EROFS EXDEV",
               also=[(AFTER, "EIO")])
_MODE = _row(MINUS, _PATH + "EBADF EROFS EINVAL ENOTSUP")
_SCHEDULER = _row(MINUS, "EINVAL ESRCH")
_SOCKET = "EACCES EAGAIN EBADF ECONNREFUSED ECONNRESET EINTR EINVAL EMFILE ENFILE ENOBUFS ENOMEM ENOTCONN EPIPE"
_CLOCK = _row(MINUS, "EINVAL EACCES")

# Each function that can make a system call, with the pairs of its manual.
REFUSED = {
    "mmap": _row(MINUS, "EACCES EAGAIN EBADF EEXIST EINVAL ENFILE ENODEV ENOMEM EOVERFLOW ETXTBSY"),
    "mremap": _row(MINUS, "EAGAIN EINVAL ENOMEM"),
    "munmap": _row(MINUS, "EINVAL ENOMEM"),
    "mprotect": _row(MINUS, "EACCES EINVAL ENOMEM", also=[(AFTER, "ENOMEM")]),
    "madvise": _row(MINUS, "EACCES EAGAIN EBADF EBUSY EHWPOISON EINVAL EIO ENOMEM EINTR",
                    also=[(AFTER, "ENOMEM"), (AFTER, "EINTR")]),
    "mincore": _row(MINUS, "EAGAIN EINVAL ENOMEM"),
    "mlock": _row(MINUS, "EAGAIN EINVAL ENOMEM"), "mlock2": _row(MINUS, "EAGAIN EINVAL ENOMEM"),
    "munlockall": _row(MINUS, ""),
    "shmctl": _row(MINUS, "EACCES EIDRM EINVAL ENOMEM EOVERFLOW"),
    "munlock": _row(MINUS, "EAGAIN EINVAL ENOMEM"),
    "msync": _row(MINUS, "EBUSY EINVAL ENOMEM"),
    "memfd_create": _row(MINUS, "EINVAL EMFILE ENFILE ENOMEM"),
    "process_vm_readv": _row(MINUS, "EINVAL ENOMEM ESRCH"),
    "sysconf": _row(MINUS, "EINVAL", filtered=False),
    "sysinfo": _row(MINUS, ""),
    "getrlimit": _row(MINUS, "EINVAL"),
    "prlimit": _row(MINUS, "EINVAL ESRCH"),
    "prctl": _row(MINUS, "EACCES EBADF EBUSY EINVAL ENXIO EOPNOTSUPP EOVERFLOW"),
    "getrandom": _row(MINUS, "EAGAIN EINTR EINVAL"),
    "clock_gettime": _CLOCK, "clock_getres": _CLOCK,
    "nanosleep": _row(MINUS, "EINTR EINVAL"),
    "clock_nanosleep": _row(CODE, "EINTR EINVAL ENOTSUP"),
    "sched_yield": _row(MINUS, ""),
    "sched_setscheduler": _SCHEDULER, "sched_getscheduler": _SCHEDULER, "sched_getparam": _SCHEDULER,
    "sched_setparam": _SCHEDULER, "sched_getaffinity": _SCHEDULER, "sched_setaffinity": _SCHEDULER,
    "getpriority": _row(MINUS, "EINVAL ESRCH"), "setpriority": _row(MINUS, "EINVAL ESRCH EACCES"),
    "pthread_getschedparam": _row(CODE, "ESRCH"), "pthread_setschedparam": _row(CODE, "EINVAL EPERM ENOTSUP ESRCH"),
    "open": _OPEN, "open64": _OPEN, "openat": _OPEN,
    "close": _row(AFTER, "EBADF EDQUOT EINTR EIO ENOSPC"),
    "read": _READ, "pread": _READ, "readv": _READ,
    "write": _WRITE, "pwrite": _WRITE, "writev": _row(MINUS, "EAGAIN EBADF EINTR EINVAL EIO ENOSPC EPIPE"),
    "lseek": _row(MINUS, "EBADF EINVAL ENXIO EOVERFLOW ESPIPE"),
    "stat": _STAT, "lstat": _STAT, "fstat": _STAT, "fstatat": _STAT, "statx": _STAT, "statfs": _STAT,
    "fstatfs": _STAT, "statvfs": _STAT, "utimensat": _row(MINUS, _PATH + "EBADF EINVAL EROFS ESRCH"),
    "access": _row(MINUS, _PATH + "EINVAL EROFS ETXTBSY"), "faccessat": _row(MINUS, _PATH + "EBADF"),
    "readlink": _row(MINUS, _PATH + "EINVAL"), "readlinkat": _row(MINUS, _PATH + "EINVAL EBADF"),
    "unlink": _UNLINK, "unlinkat": _UNLINK, "rmdir": _UNLINK,
    "rename": _RENAME, "renameat": _RENAME, "renameat2": _RENAME,
    "link": _RENAME, "linkat": _RENAME, "symlink": _RENAME,
    "chmod": _MODE, "fchmod": _MODE, "fchmodat": _MODE, "chown": _MODE, "fchown": _MODE, "lchown": _MODE,
    "fchownat": _MODE,
    "mkdir": _row(MINUS, _PATH + "EDQUOT EEXIST EINVAL EMLINK ENOSPC EROFS"),
    "opendir": _row(NULL, "EACCES EBADF EMFILE ENFILE ENOENT ENOMEM ENOTDIR"),
    "fdopendir": _row(NULL, "EBADF ENOENT ENOMEM ENOTDIR"), "readdir": _row(NULL, "EBADF"),
    "closedir": _row(AFTER, "EBADF", filtered=False),
    "flock": _row(MINUS, "EBADF EINTR EINVAL ENOLCK EWOULDBLOCK"),
    "fcntl": _row(MINUS, "EACCES EAGAIN EBADF EBUSY EDEADLK EINTR EINVAL EMFILE ENOLCK"),
    "ftruncate": _row(MINUS, "EBADF EFBIG EINTR EINVAL EIO"),
    "fsync": _row(MINUS, "EBADF EDQUOT EINTR EINVAL EIO ENOSPC EROFS"),
    "fdatasync": _row(MINUS, "EBADF EDQUOT EINTR EINVAL EIO ENOSPC EROFS"),
    "fallocate": _row(MINUS, "EBADF EFBIG EINTR EINVAL EIO ENODEV ENOSPC EOPNOTSUPP ESPIPE ETXTBSY"),
    "poll": _row(MINUS, "EINTR EINVAL ENOMEM"), "ppoll": _row(MINUS, "EINTR EINVAL ENOMEM"),
    "pipe": _row(MINUS, "EINVAL EMFILE ENFILE"), "pipe2": _row(MINUS, "EINVAL EMFILE ENFILE"),
    "eventfd": _row(MINUS, "EINVAL EMFILE ENFILE ENODEV ENOMEM"),
    "dup": _row(MINUS, "EBADF EMFILE ENOMEM"), "dup2": _row(MINUS, "EBADF EBUSY EINTR EMFILE"),
    **{name: _row(MINUS, _SOCKET) for name in ("socket", "bind", "listen", "accept", "accept4", "connect", "send",
                                               "recv", "sendto", "recvfrom", "sendmsg", "recvmsg", "setsockopt",
                                               "getsockopt", "shutdown", "getsockname")},
    "gethostname": _row(MINUS, "EINVAL ENAMETOOLONG"), "uname": _row(MINUS, ""),
    "kill": _row(MINUS, "EINVAL ESRCH"), "sigaction": _row(MINUS, "EINVAL"),
    "sigaltstack": _row(MINUS, "EINVAL ENOMEM"),
    "pthread_sigmask": _row(CODE, "EINVAL", filtered=False), "sigprocmask": _row(MINUS, "EINVAL"),
    "sigpending": _row(MINUS, "EINVAL"),
    "pthread_create": _row(CODE, "EAGAIN EINVAL EPERM", filtered=False),
    "pthread_getattr_np": _row(CODE, "ENOMEM EMFILE ENFILE EACCES ENOENT", filtered=False),
    "pthread_key_create": _row(CODE, "EAGAIN ENOMEM", filtered=False),
    "pthread_key_delete": _row(CODE, "EINVAL", filtered=False),
    "pthread_setspecific": _row(CODE, "EINVAL ENOMEM", filtered=False),
    "__register_atfork": _row(CODE, "ENOMEM", filtered=False),
    "getrusage": _row(MINUS, "EINVAL"),
    "getgroups": _row(MINUS, "EINVAL"), "getxattr": _row(MINUS, "ENODATA ENOTSUP ERANGE E2BIG"),
    "getcpu": _row(MINUS, ""), "sched_getcpu": _row(MINUS, ""),
    "dlopen": _row(NULL, "ENOMEM ENOENT EMFILE", filtered=False),
    # Memory for our own records, from the underlying allocator, which asks the kernel.
    "malloc": _row(NULL, "ENOMEM", filtered=False), "calloc": _row(NULL, "ENOMEM", filtered=False),
    "realloc": _row(NULL, "ENOMEM", filtered=False), "aligned_alloc": _row(NULL, "ENOMEM", filtered=False),
    "posix_memalign": _row(CODE, "ENOMEM", filtered=False),
    "fopen": _row(NULL, "EACCES EMFILE ENOENT ENOMEM"), "fclose": _row(AFTER, "EIO ENOSPC"),
    "fwrite": _row(ZERO, "EIO ENOSPC"), "fputs": _row(MINUS, "EIO ENOSPC"), "fputc": _row(MINUS, "EIO ENOSPC"),
    "fread": _row(ZERO, "EIO"), "fflush": _row(MINUS, "EIO ENOSPC"),
}

# What syscall() is called for, by its number on x86-64.
BY_NUMBER = {
    0: ("read", _READ), 1: ("write", _WRITE), 3: ("close", REFUSED["close"]), 9: ("mmap", REFUSED["mmap"]),
    10: ("mprotect", REFUSED["mprotect"]), 11: ("munmap", REFUSED["munmap"]),
    25: ("mremap", REFUSED["mremap"]), 30: ("shmat", _row(MINUS, "EACCES EIDRM EINVAL ENOMEM")),
    149: ("mlock", REFUSED["mlock"]), 325: ("mlock2", REFUSED["mlock2"]),
    278: ("vmsplice", _row(MINUS, "EAGAIN EBADF EINVAL ENOMEM")),
    16: ("ioctl", _row(MINUS, "EBADF EINVAL ENOTTY")), 329: ("pkey_mprotect", REFUSED["mprotect"]),
    157: ("prctl", REFUSED["prctl"]), 272: ("unshare", _row(MINUS, "EINVAL ENOMEM EPERM")),
    14: ("rt_sigprocmask", _row(MINUS, "EINVAL")),
    24: ("sched_yield", _row(MINUS, "")), 28: ("madvise", REFUSED["madvise"]), 35: ("nanosleep", REFUSED["nanosleep"]),
    39: ("getpid", _row(MINUS, "")), 128: ("rt_sigtimedwait", _row(MINUS, "EAGAIN EINTR EINVAL")),
    144: ("sched_setscheduler", _SCHEDULER), 186: ("gettid", _row(MINUS, "")),
    202: ("futex", _row(MINUS, "EAGAIN EDEADLK EINTR EINVAL ENFILE ENOMEM ESRCH ETIMEDOUT")),
    203: ("sched_setaffinity", _SCHEDULER), 204: ("sched_getaffinity", _SCHEDULER), 228: ("clock_gettime", _CLOCK),
    230: ("clock_nanosleep", _row(MINUS, "EINTR EINVAL ENOTSUP")),
    217: ("getdents64", _row(MINUS, "EBADF EINVAL ENOENT ENOTDIR")), 234: ("tgkill", _row(MINUS, "EAGAIN EINVAL EPERM ESRCH")),
    237: ("mbind", _row(MINUS, "EINVAL EIO ENOMEM")), 238: ("set_mempolicy", _row(MINUS, "EINVAL ENOMEM")),
    239: ("get_mempolicy", _row(MINUS, "EINVAL")), 309: ("getcpu", _row(MINUS, "")),
    279: ("move_pages", _row(MINUS, "E2BIG EACCES EINVAL ENODEV ENOENT ENOMEM EPERM ESRCH")),
    310: ("process_vm_readv", REFUSED["process_vm_readv"]), 318: ("getrandom", REFUSED["getrandom"]),
    324: ("membarrier", _row(MINUS, "EINVAL")), 332: ("statx", _STAT), 436: ("close_range", _row(MINUS, "EINVAL EMFILE ENOMEM")),
    434: ("pidfd_open", _row(MINUS, "EINVAL EMFILE ENFILE ENODEV ENOMEM ESRCH")),
    438: ("pidfd_getfd", _row(MINUS, "EBADF EINVAL EMFILE ENFILE EPERM ESRCH")),
    440: ("process_madvise", REFUSED["madvise"]),
}

# Calls that are answered without the kernel, by their first argument: sysconf(_SC_PAGESIZE).
ANSWERED = {("sysconf", 30)}

# What makes no system call, makes one that cannot fail, or ends the process.
NEVER_REFUSED = set("""
    abort _exit exit time getpid getppid gettid getuid geteuid getgid getegid getauxval getpagesize secure_getenv getenv
    __cxa_finalize __cxa_atexit __gmon_start__ _ITM_deregisterTMCloneTable _ITM_registerTMCloneTable __tls_get_addr
    __errno_location __stack_chk_fail __sched_cpucount _dl_find_object dladdr dladdr1 dlsym dlclose dlerror dl_iterate_phdr
    free memchr memcmp memcpy memmove memset mempcpy bcmp memrchr strchr strrchr strcmp strncmp strlen strnlen strstr
    strcpy strncpy strtol strtoul strtoull strerror strerror_r snprintf sprintf vsnprintf gettext qsort bsearch
    pthread_self pthread_equal tss_create mallinfo mallinfo2 pthread_once pthread_mutex_lock pthread_mutex_trylock pthread_mutex_unlock
    pthread_attr_init pthread_attr_destroy pthread_attr_getstack pthread_attr_setdetachstate pthread_attr_setstacksize
    pthread_attr_setguardsize pthread_setcancelstate pthread_getspecific pthread_detach pthread_join pthread_setname_np
    __pthread_key_create sigfillset sigemptyset sigaddset sigdelset sigismember
    pthread_cond_wait pthread_cond_signal pthread_cond_broadcast
""".split())
