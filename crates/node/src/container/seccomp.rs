//! The default system call filter. It refuses what containers have no business with, such as
//! mounting, loading modules or making namespaces, unless a capability of theirs is for that.
//!
//! Installing it also forbids gaining privileges through set-user-id programs, which the kernel asks
//! of processes without `CAP_SYS_ADMIN`.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

/// x86-64 numbers of system calls that need a capability; without one they are never let through.
#[rustfmt::skip]
const REFUSED: &[(&str, &[i64])] = &[
    // mount, umount2, pivot_root, setns, unshare, quotactl, name_to_handle_at, lookup_dcookie,
    // fanotify_init, bpf, fsopen, fsconfig, fsmount, fspick, open_tree, move_mount, mount_setattr,
    // sethostname, setdomainname, perf_event_open, quotactl_fd
    ("CAP_SYS_ADMIN", &[165, 166, 155, 308, 272, 179, 303, 212, 300, 321, 430, 431, 432, 433, 428, 429, 442, 170, 171, 298, 443]),
    // open_by_handle_at
    ("CAP_DAC_READ_SEARCH", &[304]),
    // init_module, finit_module, delete_module, create_module, query_module, get_kernel_syms
    ("CAP_SYS_MODULE", &[175, 313, 176, 174, 178, 177]),
    // reboot, kexec_load, kexec_file_load
    ("CAP_SYS_BOOT", &[169, 246, 320]),
    // settimeofday, clock_settime, clock_adjtime
    ("CAP_SYS_TIME", &[164, 227, 305]),
    // iopl, ioperm
    ("CAP_SYS_RAWIO", &[172, 173]),
    // acct
    ("CAP_SYS_PACCT", &[163]),
    // syslog
    ("CAP_SYSLOG", &[103]),
    // vhangup
    ("CAP_SYS_TTY_CONFIG", &[153]),
    // mbind, set_mempolicy, get_mempolicy, migrate_pages, move_pages
    ("CAP_SYS_NICE", &[237, 238, 239, 256, 279]),
    // pidfd_getfd, kcmp
    ("CAP_SYS_PTRACE", &[438, 312]),
    // swapon, swapoff, add_key, request_key, keyctl, userfaultfd, uselib, ustat, sysfs, _sysctl,
    // nfsservctl, io_uring_setup, io_uring_enter, io_uring_register
    ("", &[167, 168, 248, 249, 250, 323, 134, 136, 139, 156, 180, 425, 426, 427]),
];

const CLONE: i64 = 56;
const CLONE3: i64 = 435;

/// Flags of `clone` that make namespaces: cgroup, uts, ipc, user, pid, net, mount.
const NAMESPACE_FLAGS: &[u64] =
    &[0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000, 0x0002_0000];

/// Programs for a process with these capabilities (`CAP_...`), to be installed in order.
pub(super) fn programs(capabilities: &[String]) -> Result<Vec<BpfProgram>, seccompiler::BackendError> {
    let has = |name: &str| capabilities.iter().any(|capability| capability == name);
    let mut refused: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for (capability, calls) in REFUSED {
        if !has(capability) {
            refused.extend(calls.iter().map(|call| (*call, Vec::new())));
        }
    }
    let mut programs = Vec::new();
    if !has("CAP_SYS_ADMIN") {
        let mut rules = Vec::new();
        for flag in NAMESPACE_FLAGS {
            let operator = SeccompCmpOp::MaskedEq(*flag);
            let condition = SeccompCondition::new(0, SeccompCmpArgLen::Qword, operator, *flag)?;
            rules.push(SeccompRule::new(vec![condition])?);
        }
        refused.insert(CLONE, rules);
        // Its flags are in memory where a filter cannot look; C libraries fall back to clone.
        programs.push(program(BTreeMap::from([(CLONE3, Vec::new())]), ENOSYS)?);
    }
    programs.push(program(refused, EPERM)?);
    Ok(programs)
}

fn program(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: u32) -> Result<BpfProgram, seccompiler::BackendError> {
    let arch = TargetArch::x86_64;
    SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno), arch)?.try_into()
}
