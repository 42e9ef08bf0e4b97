/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What each child may still do. The enforcer keeps CAP_NET_ADMIN and CAP_NET_RAW. The server keeps nothing: no user, no capability, no new ones, no path but
 * `state` (landlock), only the system calls it uses (seccomp). Linux without landlock is said in the log and goes on. */
#include <cap-ng.h>
#include <errno.h>
#include <grp.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/log.h"
#include "daemon/parent_private.h"

static int no_new_privileges(void)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

int drop_to_enforcer(void)
{
	capng_clear(CAPNG_SELECT_BOTH);
	capng_updatev(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED | CAPNG_BOUNDING_SET, CAP_NET_ADMIN, CAP_NET_RAW, -1);
	if (capng_apply(CAPNG_SELECT_BOTH) < 0)
		return -EPERM;
	return no_new_privileges();
}

/* Everything below `state` and nothing else. */
static int confine_paths(int state_fd)
{
	struct landlock_ruleset_attr attr = { .handled_access_fs = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1 };
	int fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
	if (fd < 0)
		return -errno;
	int r = 0;
	if (state_fd >= 0) {
		struct landlock_path_beneath_attr beneath = { .parent_fd = state_fd,
			.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR |
				LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR };
		r = (int)syscall(SYS_landlock_add_rule, fd, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0);
	}
	if (r == 0)
		r = (int)syscall(SYS_landlock_restrict_self, fd, 0);
	r = r < 0 ? -errno : 0;
	close(fd);
	return r;
}

/* Refused with EPERM: whatever a name server has no use for. A list of what is allowed breaks with every libc; this one closes the kernel's doors that matter:
 * new programs, tracing, modules, mounts, namespaces, keys, BPF, raw and netlink sockets, io_uring. */
static int confine_calls(void)
{
	static const int refused[] = { SCMP_SYS(execve), SCMP_SYS(execveat), SCMP_SYS(fork), SCMP_SYS(vfork), SCMP_SYS(ptrace), SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev),
		SCMP_SYS(mount), SCMP_SYS(umount2), SCMP_SYS(pivot_root), SCMP_SYS(chroot), SCMP_SYS(unshare), SCMP_SYS(setns), SCMP_SYS(init_module), SCMP_SYS(finit_module),
		SCMP_SYS(delete_module), SCMP_SYS(kexec_load), SCMP_SYS(kexec_file_load), SCMP_SYS(reboot), SCMP_SYS(swapon), SCMP_SYS(swapoff), SCMP_SYS(bpf), SCMP_SYS(perf_event_open),
		SCMP_SYS(userfaultfd), SCMP_SYS(keyctl), SCMP_SYS(add_key), SCMP_SYS(request_key), SCMP_SYS(io_uring_setup), SCMP_SYS(io_uring_enter), SCMP_SYS(io_uring_register),
		SCMP_SYS(open_by_handle_at), SCMP_SYS(acct), SCMP_SYS(settimeofday), SCMP_SYS(clock_settime), SCMP_SYS(adjtimex), SCMP_SYS(sethostname), SCMP_SYS(setdomainname),
		SCMP_SYS(setuid), SCMP_SYS(setgid), SCMP_SYS(setreuid), SCMP_SYS(setregid), SCMP_SYS(setresuid), SCMP_SYS(setresgid), SCMP_SYS(setgroups), SCMP_SYS(capset),
		SCMP_SYS(chmod), SCMP_SYS(fchmod), SCMP_SYS(fchmodat), SCMP_SYS(chown), SCMP_SYS(fchown), SCMP_SYS(fchownat), SCMP_SYS(lchown), SCMP_SYS(mknod), SCMP_SYS(mknodat),
		SCMP_SYS(symlink), SCMP_SYS(symlinkat), SCMP_SYS(link), SCMP_SYS(linkat), SCMP_SYS(kill), SCMP_SYS(tkill), SCMP_SYS(pidfd_send_signal), SCMP_SYS(personality) };
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
	int r = ctx ? 0 : -ENOMEM;
	for (size_t i = 0; r == 0 && i < sizeof refused / sizeof refused[0]; i++)
		r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), refused[i], 0);
	/* Sockets: IPv4 and IPv6, stream and datagram, and nothing else (no netlink, packet, raw, unix to strangers). */
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_GT, AF_INET6));
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_LT, AF_INET));
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 1, SCMP_A1(SCMP_CMP_MASKED_EQ, 0xf, SOCK_RAW));
	if (r == 0)
		r = seccomp_load(ctx);
	seccomp_release(ctx);
	return r;
}

int drop_to_server(uid_t uid, gid_t gid, int state_fd)
{
	int r = 0;
	/* The bounding set goes first, while that is still allowed; changing the user then empties the rest. */
	capng_clear(CAPNG_SELECT_BOTH);
	if (capng_apply(CAPNG_SELECT_BOUNDS) < 0)
		return -EPERM;
	if (uid && (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0))
		return -errno;
	capng_clear(CAPNG_SELECT_BOTH);
	if (capng_apply(CAPNG_SELECT_CAPS) < 0)
		return -EPERM;
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if ((r = no_new_privileges()) < 0)
		return r;
	if ((r = confine_paths(state_fd)) < 0)
		log_warn("landlock is not to be had (%s): the server is confined by its user and seccomp only", strerror(-r));
	if ((r = confine_calls()) < 0)
		log_warn("seccomp is not to be had (%s)", strerror(-r));
	return 0;
}
