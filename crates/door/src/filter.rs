//! The filter of system calls: which calls of a program are answered by the host, and which are the
//! kernel's own.
//!
//! The filter is a program of the classic BPF (seccomp(2)). Calls that are not about Internet
//! sockets pass through it unseen. It is inherited by all children of the program and cannot be
//! removed.

/// One instruction, as in `struct sock_filter`: code, jump if true, jump if false, operand.
pub type Instruction = (u16, u8, u8, u32);

/// Loads a word of the call's description.
const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const JUMP_IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const NOTIFY: u32 = libc::SECCOMP_RET_USER_NOTIF;

#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const NATIVE: u32 = 0xc000_00b7;

/// First number of the calls of the x32 interface, which have the native architecture.
const X32: u32 = 0x4000_0000;

fn errno(number: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | number as u32
}

/// Returns the offset of the low half of an argument.
fn low(arg: u32) -> u32 {
    16 + 8 * arg
}

/// A rule for one system call: instructions that end with a decision.
struct Rule {
    number: libc::c_long,
    body: Vec<Instruction>,
}

fn always(number: libc::c_long, action: u32) -> Rule {
    Rule { number, body: vec![(RETURN, 0, 0, action)] }
}

/// Notifies if argument `arg`, a pointer, is not null.
fn with_pointer(number: libc::c_long, arg: u32) -> Rule {
    let body = vec![
        (LOAD, 0, 0, low(arg)),
        (JUMP_IF_EQUAL, 0, 2, 0),
        (LOAD, 0, 0, low(arg) + 4),
        (JUMP_IF_EQUAL, 1, 0, 0),
        (RETURN, 0, 0, NOTIFY),
        (RETURN, 0, 0, ALLOW),
    ];
    Rule { number, body }
}

/// Notifies of stream sockets of the Internet families, also of MPTCP, which Go selects by default.
fn socket() -> Rule {
    let body = vec![
        (LOAD, 0, 0, low(0)),
        (JUMP_IF_EQUAL, 1, 0, libc::AF_INET as u32),
        (JUMP_IF_EQUAL, 0, 4, libc::AF_INET6 as u32),
        (LOAD, 0, 0, low(1)),
        (AND, 0, 0, 0xf),
        (JUMP_IF_EQUAL, 0, 1, libc::SOCK_STREAM as u32),
        (RETURN, 0, 0, NOTIFY),
        (RETURN, 0, 0, ALLOW),
    ];
    Rule { number: libc::SYS_socket, body }
}

/// Options without an effect on a token are answered here, since programs set them for each
/// request. SO_LINGER is the only option of the token that the host must know at the end, when the
/// token is gone.
fn setsockopt() -> Rule {
    let body = vec![
        (LOAD, 0, 0, low(1)),
        (JUMP_IF_EQUAL, 6, 0, libc::IPPROTO_TCP as u32),
        (JUMP_IF_EQUAL, 10, 0, libc::IPPROTO_IP as u32),
        (JUMP_IF_EQUAL, 9, 0, libc::IPPROTO_IPV6 as u32),
        (JUMP_IF_EQUAL, 0, 2, libc::SOL_SOCKET as u32),
        (LOAD, 0, 0, low(2)),
        (JUMP_IF_EQUAL, 6, 0, libc::SO_LINGER as u32),
        (RETURN, 0, 0, ALLOW),
        (LOAD, 0, 0, low(2)),
        (JUMP_IF_EQUAL, 2, 0, libc::TCP_NODELAY as u32),
        (JUMP_IF_EQUAL, 1, 0, libc::TCP_CORK as u32),
        (JUMP_IF_EQUAL, 0, 1, libc::TCP_QUICKACK as u32),
        (RETURN, 0, 0, errno(0)),
        (RETURN, 0, 0, NOTIFY),
    ];
    Rule { number: libc::SYS_setsockopt, body }
}

/// Returns the filter.
pub fn program() -> Vec<Instruction> {
    let rules = [
        socket(),
        always(libc::SYS_connect, NOTIFY),
        always(libc::SYS_bind, NOTIFY),
        always(libc::SYS_listen, NOTIFY),
        always(libc::SYS_getsockname, NOTIFY),
        always(libc::SYS_getpeername, NOTIFY),
        always(libc::SYS_getsockopt, NOTIFY),
        setsockopt(),
        always(libc::SYS_accept, NOTIFY),
        always(libc::SYS_accept4, NOTIFY),
        with_pointer(libc::SYS_sendto, 4),
        always(libc::SYS_io_uring_setup, errno(libc::ENOSYS)),
    ];
    let mut out = vec![
        (LOAD, 0, 0, ARCHITECTURE),
        (JUMP_IF_EQUAL, 1, 0, NATIVE),
        (RETURN, 0, 0, errno(libc::ENOSYS)),
        (LOAD, 0, 0, NUMBER),
        (JUMP_IF_AT_LEAST, 0, 1, X32),
        (RETURN, 0, 0, errno(libc::ENOSYS)),
    ];
    for Rule { number, body } in rules {
        out.push((JUMP_IF_EQUAL, 0, body.len() as u8, number as u32));
        out.extend(body);
    }
    out.push((RETURN, 0, 0, ALLOW));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the filter as the kernel does.
    fn run(number: libc::c_long, args: [u64; 6]) -> u32 {
        let (program, mut at, mut acc) = (program(), 0, 0);
        let word = |offset: u32| match offset {
            NUMBER => number as u32,
            ARCHITECTURE => NATIVE,
            offset => (args[(offset as usize - 16) / 8] >> (8 * (offset % 8))) as u32,
        };
        loop {
            let (code, yes, no, operand) = program[at];
            let jump = |holds: bool| usize::from(if holds { yes } else { no });
            at += 1 + match code {
                LOAD => {
                    acc = word(operand);
                    0
                }
                AND => {
                    acc &= operand;
                    0
                }
                JUMP_IF_EQUAL => jump(acc == operand),
                JUMP_IF_AT_LEAST => jump(acc >= operand),
                _ => return operand,
            };
        }
    }

    #[test]
    fn calls_about_streams_are_notified_and_others_are_not() {
        let [inet, inet6, unix] = [libc::AF_INET, libc::AF_INET6, libc::AF_UNIX].map(|family| family as u64);
        let [stream, datagram] = [libc::SOCK_STREAM, libc::SOCK_DGRAM].map(|kind| (kind | libc::SOCK_NONBLOCK) as u64);
        let socket = |family, kind, proto| run(libc::SYS_socket, [family, kind, proto, 0, 0, 0]);
        assert_eq!([socket(inet, stream, 0), socket(inet6, stream, 262)], [NOTIFY; 2]);
        assert_eq!([socket(unix, stream, 0), socket(inet, datagram, 0)], [ALLOW; 2]);
        let set = |level: i32, name: i32| run(libc::SYS_setsockopt, [3, level as u64, name as u64, 0, 0, 0]);
        assert_eq!(set(libc::IPPROTO_TCP, libc::TCP_NODELAY), errno(0));
        assert_eq!(set(libc::IPPROTO_TCP, libc::TCP_CORK), errno(0));
        assert_eq!(set(libc::IPPROTO_TCP, libc::TCP_QUICKACK), errno(0));
        assert_eq!(set(libc::IPPROTO_TCP, libc::TCP_KEEPIDLE), NOTIFY);
        assert_eq!([set(libc::IPPROTO_IP, 1), set(libc::IPPROTO_IPV6, 26)], [NOTIFY; 2]);
        assert_eq!([set(libc::SOL_SOCKET, libc::SO_KEEPALIVE), set(41_000, libc::SO_LINGER)], [ALLOW; 2]);
        assert_eq!(set(libc::SOL_SOCKET, libc::SO_LINGER), NOTIFY);
        let send = |pointer| run(libc::SYS_sendto, [3, 0, 0, 0, pointer, 0]);
        assert_eq!([send(0), send(8), send(1 << 32)], [ALLOW, NOTIFY, NOTIFY]);
        assert_eq!(run(libc::SYS_accept4, [0; 6]), NOTIFY);
        assert_eq!(run(libc::SYS_io_uring_setup, [0; 6]), errno(libc::ENOSYS));
        assert_eq!([run(libc::SYS_read, [0; 6]), run(libc::SYS_connect, [0; 6])], [ALLOW, NOTIFY]);
        assert_eq!(run(i64::from(X32) | libc::SYS_connect, [0; 6]), errno(libc::ENOSYS));
    }
}
