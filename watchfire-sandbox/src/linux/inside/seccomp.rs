//! The system calls that no agent needs and that sandboxes break on.

use std::collections::BTreeMap;
use std::env::consts::ARCH;

use libc::{c_long, c_ulong};
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, sock_filter,
};

/// Filters the system calls of this thread for good. Needs no_new_privs.
///
/// `no_network` refuses sockets to other machines too. `no_local` refuses those to programs of this machine that are not the
/// network's; pairs stay, which lead nowhere else.
pub(in crate::linux) fn restrict(no_network: bool, no_local: bool) -> Result<(), Error> {
    // The last one in is asked first; the strictest answer counts.
    for program in programs(no_network, no_local)? {
        seccompiler::apply_filter(&program)?;
    }
    Ok(())
}

fn programs(no_network: bool, no_local: bool) -> Result<Vec<BpfProgram>, Error> {
    let refuse = |errno: i32| SeccompAction::Errno(errno.unsigned_abs());
    let mut programs = vec![
        program(refused(no_network, no_local)?, refuse(libc::EPERM))?,
        // Its flags lie in memory, where a filter cannot look; without it libraries take clone, whose flags it can.
        program(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), refuse(libc::ENOSYS))?,
    ];
    if cfg!(target_arch = "x86_64") {
        programs.push(no_x32());
    }
    Ok(programs)
}

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

fn program(rules: Rules, action: SeccompAction) -> Result<BpfProgram, Error> {
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, ARCH.try_into()?)?;
    Ok(filter.try_into()?)
}

/// System calls that are refused with any arguments.
const WHOLLY: &[c_long] = &[
    // kernel keyring
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    // programs in the kernel, and what watches it
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_lookup_dcookie,
    // work that bypasses filters
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // mounts and namespaces
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    // the machine
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_syslog,
];

/// x86_64 alone has these.
#[cfg(target_arch = "x86_64")]
const WHOLLY_HERE: &[c_long] = &[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_uselib];
#[cfg(not(target_arch = "x86_64"))]
const WHOLLY_HERE: &[c_long] = &[];

/// Newer than the crate that has the other numbers; the same everywhere.
const OPEN_TREE_ATTR: c_long = 467;

/// Calls that change modes, with where the mode is among their arguments.
const MODES: &[(c_long, u8)] = &[(libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2), (libc::SYS_fchmodat2, 2)];
#[cfg(target_arch = "x86_64")]
const MODES_HERE: &[(c_long, u8)] = &[(libc::SYS_chmod, 1)];
#[cfg(not(target_arch = "x86_64"))]
const MODES_HERE: &[(c_long, u8)] = &[];

/// Set-user-ID bit. A program with it runs as its owner, the person or root. The kernel clears the bit when the file
/// is written, so one that is made with it is harmless; one that gets it later is not.
const SET_USER_ID: u64 = 0o4000;

/// Calls that change a process, with where its number is among their arguments: the limits, the processors and the
/// priority of the first process inside, which keeps hidden what must stay hidden.
const OF_PROCESSES: &[(c_long, u8)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
];

/// The number of the first process inside.
const KEEPER: u64 = 1;

/// Selects all processes of a user in calls about priorities, the first one inside too.
const ALL_OF_USER: &[(c_long, u64)] =
    &[(libc::SYS_setpriority, libc::PRIO_USER as u64), (libc::SYS_ioprio_set, 3)];

/// Terminal calls that type into another terminal's input.
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541c;

/// Kinds of sockets that agents need: local, the network, and asking the kernel for addresses.
const FAMILIES: &[i32] = &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

const NEW_NAMESPACES: &[i32] = &[
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

fn refused(no_network: bool, no_local: bool) -> Result<Rules, Error> {
    let mut rules: Rules = WHOLLY.iter().chain(WHOLLY_HERE).map(|call| (*call, Vec::new())).collect();
    let low = SeccompCmpArgLen::Dword;
    // The kernel looks at the low half of a request alone, and so do we.
    let ioctls = [TIOCSTI, TIOCLINUX].map(|request| one(1, low.clone(), SeccompCmpOp::Eq, request));
    rules.insert(libc::SYS_ioctl, ioctls.into_iter().collect::<Result<_, _>>()?);

    let allowed: Vec<_> = FAMILIES
        .iter()
        .filter(|family| match **family {
            libc::AF_UNIX => !no_local,
            libc::AF_INET | libc::AF_INET6 => !no_network,
            _ => true,
        })
        .collect();
    let others = allowed.iter().map(|family| {
        SeccompCondition::new(0, low.clone(), SeccompCmpOp::Ne, u64::from(family.unsigned_abs()))
    });
    let others = SeccompRule::new(others.collect::<Result<_, _>>()?)?;
    rules.insert(libc::SYS_socket, vec![others]);

    let spaces: Result<Vec<_>, _> = NEW_NAMESPACES
        .iter()
        .map(|flag| {
            let flag = u64::from(flag.unsigned_abs());
            one(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(flag), flag)
        })
        .collect();
    let spaces = spaces?;
    rules.insert(libc::SYS_clone, spaces.clone());
    rules.insert(libc::SYS_unshare, spaces);
    for (call, index) in MODES.iter().chain(MODES_HERE) {
        let marks = one(*index, low.clone(), SeccompCmpOp::MaskedEq(SET_USER_ID), SET_USER_ID)?;
        rules.insert(*call, vec![marks]);
    }
    for (call, index) in OF_PROCESSES {
        rules.entry(*call).or_default().push(one(*index, low.clone(), SeccompCmpOp::Eq, KEEPER)?);
    }
    for (call, who) in ALL_OF_USER {
        rules.entry(*call).or_default().push(one(0, low.clone(), SeccompCmpOp::Eq, *who)?);
    }
    Ok(rules)
}

fn one(
    index: u8,
    length: SeccompCmpArgLen,
    operator: SeccompCmpOp,
    value: c_ulong,
) -> Result<SeccompRule, Error> {
    Ok(SeccompRule::new(vec![SeccompCondition::new(index, length, operator, value)?])?)
}

/// Refuses the second set of numbers that x86_64 kernels may offer, which the rules above do not name.
fn no_x32() -> BpfProgram {
    const BIT: u32 = 0x4000_0000;
    let code = |bits: u32| u16::try_from(bits).unwrap_or_default();
    let errno = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
    vec![
        sock_filter { code: code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS), jt: 0, jf: 0, k: 0 },
        sock_filter { code: code(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K), jt: 0, jf: 1, k: BIT },
        sock_filter { code: code(libc::BPF_RET | libc::BPF_K), jt: 0, jf: 0, k: errno },
        sock_filter { code: code(libc::BPF_RET | libc::BPF_K), jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_compile() {
        for (no_network, no_local) in [(false, false), (true, false), (false, true), (true, true)] {
            let programs = programs(no_network, no_local).unwrap();
            assert!(programs.iter().all(|program| !program.is_empty() && program.len() < 4096));
        }
    }
}
