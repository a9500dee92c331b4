//! Buffers of ports that read files: those of the host's pool, and a few long ones for frames that do not fit these.

use buf::{Frame, Pool, PoolConfig, PoolLocks};

/// Long buffers of one port. They take memory only once they are used.
const LONG_BUFFERS: usize = 64;

/// The buffers of a port that reads frames of any length.
#[derive(Debug)]
pub(crate) struct Buffers {
    usual: Pool,
    /// Pool of long buffers, made when the first long frame comes.
    long: Option<Pool>,
    spare: Option<Frame>,
}

impl Buffers {
    /// Makes buffers of `usual`; long ones are added when they are needed.
    pub(crate) fn new(usual: &Pool) -> Buffers {
        Buffers { usual: usual.clone(), long: None, spare: None }
    }

    /// Returns a buffer for the next frame; `None` if a frame of some length would find none: the frame then stays unread.
    #[inline]
    pub(crate) fn get(&mut self) -> Option<Frame> {
        if let Some(long) = &self.long
            && self.spare.is_none()
        {
            self.spare = Some(long.get()?);
        }
        self.usual.get()
    }

    /// Returns a frame of `bytes`, in the buffer that [`Buffers::get`] gave or in a long one. `None`: longer than
    /// [`wire::text::MAX_FRAME`], or no memory for long buffers; then the buffer is still `usual`'s.
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
