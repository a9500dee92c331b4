//! Buffers for ports that read files: the host's pool, plus a few long buffers for frames that do
//! not fit into the pool's buffers.

use buf::{Frame, Pool, PoolConfig, PoolLocks};

/// Number of long buffers of one port. They occupy physical memory only after they have been
/// written.
const LONG_BUFFERS: usize = 64;

/// The buffers of a port that reads frames of any length.
#[derive(Debug)]
pub(crate) struct Buffers {
    usual: Pool,
    /// Pool of long buffers; `None` until the first long frame arrives.
    long: Option<Pool>,
    spare: Option<Frame>,
}

impl Buffers {
    /// Creates the buffers: those of the pool `usual`, and longer ones on demand.
    pub(crate) fn new(usual: &Pool) -> Buffers {
        Buffers { usual: usual.clone(), long: None, spare: None }
    }

    /// Returns a buffer of the usual pool for the next frame; `None` if that pool is empty. Once a
    /// long frame has arrived, also returns `None` while no long buffer is free, because the next
    /// frame may be long too. The caller then leaves the frame unread.
    #[inline]
    pub(crate) fn get(&mut self) -> Option<Frame> {
        if let Some(long) = &self.long
            && self.spare.is_none()
        {
            self.spare = Some(long.get()?);
        }
        self.usual.get()
    }

    /// Copies `bytes` into the buffer that [`Buffers::get`] returned, or into a long buffer, and
    /// returns it as a frame. Returns `None` if `bytes` is longer than [`wire::text::MAX_FRAME`] or
    /// there is no memory for long buffers. The buffer then remains in `usual`.
    #[inline]
    pub(crate) fn fill(&mut self, usual: &mut Option<Frame>, bytes: &[u8]) -> Option<Frame> {
        match usual.as_mut()?.extend(bytes) {
            Some(()) => usual.take(),
            None => self.fill_long(bytes),
        }
    }

    #[cold]
    fn fill_long(&mut self, bytes: &[u8]) -> Option<Frame> {
        if self.long.is_none() {
            let data = wire::text::MAX_FRAME;
            let config = PoolConfig { buffers: LONG_BUFFERS, data, locks: PoolLocks::Light, ..PoolConfig::default() };
            let long = Pool::new(&config).ok()?;
            self.spare = long.get();
            self.long = Some(long);
        }
        let mut frame = self.spare.take()?;
        frame.extend(bytes)?;
        Some(frame)
    }
}
