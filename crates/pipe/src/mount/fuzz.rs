//! Requests of FUSE to a mount with two ports, one after the other.

use super::device::Device;
use super::fuse::IN_HEADER;
use super::kernel::Kernel;
use super::session::{Names, Session, Then};
use crate::ports::{Counter, Registers};
use buf::{Burst, Pool, PoolConfig, PoolLocks};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;

/// Requests of one input.
const REQUESTS: usize = 100;
/// The most bytes that a read asks for: an answer of more does not fit into the socket that stands for /dev/fuse.
const READ: u32 = 4096;

/// A request for each record: the operation, the node, and a length with so many bytes of body. Operation 0 is a frame that a port
/// receives; 255 is a request as it stands, header and all.
///
/// Holds: no panic; every answer has its own length, and is to a request that was made; none is answered twice.
pub fn requests(data: &[u8]) {
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    theirs.set_nonblocking(true).unwrap();
    let kernel = Arc::new(Kernel::new(File::from(OwnedFd::from(theirs))));
    let devices =
        vec![Arc::new(Device::new("a", false, false, 1 << 14)), Arc::new(Device::new("b", true, true, 1 << 14))];
    let names = Names::new(["a", "b"].into_iter(), false).unwrap();
    let session = Session::new(kernel.clone(), devices.clone(), &names, Counter::new(1), Registers::new(0));
    let config = PoolConfig { locks: PoolLocks::Light, data: 2048, buffers: 64, ..PoolConfig::default() };
    let pool = Pool::new(&config).unwrap();
    let (mut rest, mut waiting, mut answer) = (data, BTreeSet::new(), vec![0; 1 << 17]);
    for unique in 1..=REQUESTS as u64 {
        let [what, node, len, behind @ ..] = rest else { break };
        let (body, behind) = behind.split_at(behind.len().min(usize::from(*len)));
        rest = behind;
        let then = match what {
            0 => {
                let mut burst = Burst::new();
                if let Some(mut frame) = pool.get() {
                    frame.extend(&[&[2; 14], body].concat()).unwrap();
                    assert!(burst.push(frame).is_ok());
                }
                let device = &devices[usize::from(node & 1)];
                device.received(&mut burst, unique, node & 2 != 0, &kernel);
                Then::Next
            }
            255 => {
                // Its number may be any.
                waiting.extend(body.get(8..16).map(|field| u64::from_ne_bytes(field.try_into().unwrap())));
                session.take(body)
            }
            _ => {
                waiting.insert(unique);
                session.take(&request(u32::from(*what), unique, u64::from(*node), body))
            }
        };
        while let Ok(len) = ours.recv(&mut answer) {
            assert!(len >= 16);
            assert_eq!(u32::from_ne_bytes(answer[..4].try_into().unwrap()) as usize, len);
            let of = u64::from_ne_bytes(answer[8..16].try_into().unwrap());
            // 0: a notification.
            assert!(of == 0 || waiting.remove(&of), "an answer to {of}, which nobody waits for");
        }
        if then == Then::End {
            break;
        }
    }
    devices.iter().for_each(|device| device.shut(&kernel));
}

/// A request with its header; the size that a read asks for is bounded.
fn request(code: u32, unique: u64, node: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(IN_HEADER + body.len());
    bytes.extend(((IN_HEADER + body.len()) as u32).to_ne_bytes());
    bytes.extend(code.to_ne_bytes());
    bytes.extend(unique.to_ne_bytes());
    bytes.extend(node.to_ne_bytes());
    bytes.resize(IN_HEADER, 0);
    bytes.extend(body);
    // struct fuse_read_in: fh, offset, size.
    if let Some(size) = bytes.get_mut(IN_HEADER + 16..IN_HEADER + 20) {
        let asked = u32::from_ne_bytes([size[0], size[1], size[2], size[3]]);
        size.copy_from_slice(&(asked % READ).to_ne_bytes());
    }
    bytes
}
