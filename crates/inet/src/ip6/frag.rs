//! Fragmentation of packets that this host sends (RFC 8200 4.5); routers do not fragment IPv6
//! packets. All fragments are built before the first is sent.

use crate::Stack;
use buf::{Flags, Frame, Pool};
use lock::{Cx, Locks};
use stats::DropReason;
use wire::ip6::{self, Chain, Fragment};
use wire::{Proto, checksum};

/// Length in bytes of a Fragment header.
const LEN: usize = 8;

impl<L: Locks> Stack<L> {
    /// Splits `packet`, which has no extension headers, into fragments of at most `mtu` bytes and
    /// passes each to `send`. Returns whether fragmentation succeeded.
    pub(super) fn output_fragments6(
        &self,
        cx: Cx,
        mut packet: Frame,
        header: &ip6::Header,
        mtu: usize,
        mut send: impl FnMut(&Self, Frame),
    ) -> bool {
        // If the transport checksum was left to the port, it is computed first, since the port
        // would receive only parts of the data.
        if packet.flags().has(Flags::TX_L4_CSUM) && finish_checksum(&mut packet, header).is_none() {
            self.drop_frame(cx, packet, DropReason::FragNoBuffer);
            return false;
        }
        let id = self.six.idents.lock(cx).next(header.src, header.dst);
        let Some(fragments) = cut(&packet, header, id, mtu, &self.pool) else {
            self.drop_frame(cx, packet, DropReason::FragNoBuffer);
            return false;
        };
        let counters = self.count(cx);
        counters.audit.made.add(fragments.len() as u64);
        counters.ip6.fragmented.bump();
        counters.ip6.fragments_sent.add(fragments.len() as u64);
        self.drop_frame(cx, packet, DropReason::Ip6Fragmented);
        fragments.into_iter().for_each(|fragment| send(self, fragment));
        true
    }
}

/// Computes the transport checksum that was left to the port, in a TCP or UDP packet that is not a
/// fragment. The checksum field must contain the sum of the pseudo header. Returns `None` if the
/// packet is shorter than its header states, or if it shares its buffer and no buffer is available
/// for a copy.
pub(crate) fn finish_checksum(packet: &mut Frame, header: &ip6::Header) -> Option<()> {
    let packet = packet.make_own().then(|| packet.bytes_mut())?;
    let chain = Chain::walk(header, packet).ok().filter(|chain| chain.fragment.is_none());
    let Some(chain) = chain else { return Some(()) };
    let at = match chain.upper {
        Proto::TCP => 16,
        Proto::UDP => 6,
        _ => return Some(()),
    };
    let segment = packet.get_mut(chain.offset..ip6::HEADER_LEN + usize::from(header.payload_len))?;
    let sum = checksum::sum(segment);
    let sum = if chain.upper == Proto::UDP { sum.finish_nonzero() } else { sum.finish() };
    segment.get_mut(at..at + 2)?.copy_from_slice(&sum.to_be_bytes());
    Some(())
}

/// Returns the fragments of `packet`; `None` if there are not enough buffers for all or `mtu` is
/// too small.
fn cut(packet: &Frame, header: &ip6::Header, id: u32, mtu: usize, pool: &Pool) -> Option<Vec<Frame>> {
    let payload = header.payload(packet.bytes());
    let room = mtu.min(pool.size() - pool.headroom()).saturating_sub(ip6::HEADER_LEN + LEN) & !7;
    if room == 0 {
        return None;
    }
    let mut fragments = Vec::with_capacity(payload.len().div_ceil(room));
    for (at, part) in payload.chunks(room).enumerate() {
        let offset = at * room;
        let more = offset + part.len() < payload.len();
        let fragment = Fragment { offset: offset as u16, more, id }; // a payload has at most 65,535 bytes
        let payload_len = (LEN + part.len()) as u16;
        let mut frame = pool.get()?;
        frame.mark_l3();
        let fixed = frame.append(ip6::HEADER_LEN)?.first_chunk_mut()?;
        ip6::Header { payload_len, next: Proto::FRAGMENT, ..*header }.emit(fixed);
        frame.extend(&fragment.emit(header.next))?;
        frame.extend(part)?;
        fragments.push(frame);
    }
    Some(fragments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use buf::PoolConfig;
    use std::net::Ipv6Addr;

    #[test]
    fn fragments_are_the_packet_in_blocks_of_8() {
        let pool = Pool::new(&PoolConfig { buffers: 16, ..PoolConfig::default() }).unwrap();
        let payload: Vec<u8> = (0..4000u32).map(|n| n as u8).collect();
        let (src, dst) = (Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
        let (traffic_class, flow_label) = (3, 5);
        let header =
            ip6::Header { traffic_class, flow_label, payload_len: 1800, next: Proto::UDP, hop_limit: 9, src, dst };
        let mut packet = pool.get().unwrap();
        header.emit(packet.append(40).unwrap().first_chunk_mut().unwrap());
        packet.extend(&payload[..1800]).unwrap();
        for mtu in [1280, 1281, 1287, 1500, 68] {
            let fragments = cut(&packet, &header, 77, mtu, &pool);
            let Some(fragments) = fragments else {
                assert_eq!(mtu, 68, "only 16 buffers for 90 fragments");
                continue;
            };
            let mut heard = Vec::new();
            for fragment in &fragments {
                assert!(fragment.len() <= mtu);
                let read = ip6::Header::parse(fragment.bytes()).unwrap();
                let chain = ip6::Chain::walk(&read, fragment.bytes()).unwrap();
                let said = chain.fragment.unwrap();
                assert_eq!((usize::from(said.offset), said.id, chain.upper), (heard.len(), 77, Proto::UDP));
                let part = &fragment.bytes()[48..];
                heard.extend_from_slice(part);
                assert_eq!(said.more, heard.len() < 1800);
                assert!(!said.more || part.len().is_multiple_of(8));
                assert_eq!((read.traffic_class, read.flow_label, read.hop_limit), (3, 5, 9));
            }
            assert_eq!(heard, &payload[..1800]);
        }
        drop(packet);
        assert_eq!(pool.stats().live(), 0);
    }
}
