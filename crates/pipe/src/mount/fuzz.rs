//! Fuzz body: a sequence of FUSE requests to a mount with two ports.

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

/// Maximum number of requests in one input.
const REQUESTS: usize = 100;
/// Maximum number of bytes that a read requests. A longer answer does not fit into the socket that
/// replaces /dev/fuse in the test.
const READ: u32 = 4096;

/// Fuzzes a mount with requests. The input is one record per request: one byte each for the
/// operation, the node and the length of the body, then the body. Operation 0 is a frame received
/// by a port. Operation 255 is a raw request, header included.
///
/// Checks that nothing panics; that every answer has the length in its header and belongs to a
/// request; and that no request is answered twice.
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
                // A raw request has an arbitrary request ID.
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
            assert!(of == 0 || waiting.remove(&of), "an answer to {of}, which is not pending");
        }
        if then == Then::End {
            break;
        }
    }
    devices.iter().for_each(|device| device.shut(&kernel));
}

/// Builds a request with its header. Limits the size that a read requests to [`READ`].
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
        let requested = u32::from_ne_bytes([size[0], size[1], size[2], size[3]]);
        size.copy_from_slice(&(requested % READ).to_ne_bytes());
    }
    bytes
}
