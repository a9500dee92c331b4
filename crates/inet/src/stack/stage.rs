//! Transmit stages. Frames are queued at their interface until a burst is complete, which is then
//! passed to the port.

use crate::Stack;
use crate::counters::Counters;
use crate::iface::{AtOnce, Iface, QueueSet, TxStage};
use buf::{Burst, Frame};
use clock::{Duration, Instant};
use lock::{Cx, Locks};
use stats::{DropReason, Lap, Stage};
use std::sync::atomic::Ordering;

/// Time after which a full port is polled again.
const RETRY: Duration = Duration::from_micros(50);

impl<L: Locks> Stack<L> {
    /// Passes all staged frames to the ports, and polls the ports that hold delayed frames. Returns
    /// the time of the next poll.
    pub(super) fn poll_outputs(&self, cx: Cx) -> Instant {
        let mut next = Instant::NEVER;
        self.held_until.store(next.nanos(), Ordering::Relaxed);
        for iface in self.ifaces.iter().filter(|iface| iface.kind.has_port()) {
            for queue in iface.queues.iter() {
                let mut stage = queue.lock(cx);
                if !stage.burst.is_empty() {
                    self.flush_stage(cx, &mut stage);
                }
                if !stage.burst.is_empty() && stage.output.is_some() {
                    next = next.min(cx.now.after(RETRY)); // the port is full
                }
                if let Some(output) = &mut stage.output {
                    next = next.min(output.poll(cx.now).unwrap_or(Instant::NEVER));
                }
            }
        }
        self.note_held(next);
        if next != Instant::NEVER {
            self.due(next); // another thread may be the one that sleeps until the next event
        }
        next
    }

    /// Passes the staged frames of all threads to the ports.
    pub fn flush_all(&self, cx: Cx) {
        self.flush(cx);
        let queues = self.ifaces.iter().flat_map(|iface| iface.queues.iter());
        for mut stage in queues.map(|queue| queue.lock(cx)).filter(|stage| !stage.burst.is_empty()) {
            self.flush_stage(cx, &mut stage);
        }
    }

    /// Records that a port of a shared host must be polled at `at`.
    fn note_held(&self, at: Instant) {
        if L::SHARED && at < self.held_until() {
            self.held_until.fetch_min(at.nanos(), Ordering::Relaxed);
        }
    }

    /// Returns the time at which a port of a shared host must be polled.
    pub(super) fn held_until(&self) -> Instant {
        Instant::from_nanos(self.held_until.load(Ordering::Relaxed))
    }

    /// Passes the frames that this thread has staged to their ports.
    #[inline]
    pub fn flush(&self, cx: Cx) {
        if let Some(staged) = self.count(cx).staged.take() {
            self.flush_queues(cx, staged);
        }
    }

    fn flush_queues(&self, cx: Cx, staged: QueueSet) {
        let lap = self.resume(cx);
        let outer = lap.nest();
        for iface in self.ifaces.iter().filter(|iface| iface.kind.has_port()) {
            for queue in iface.queues.among(staged) {
                let mut stage = queue.lock(cx);
                if !stage.burst.is_empty() {
                    flush_counted(cx, self.count(cx), &mut stage, lap);
                }
                if !stage.burst.is_empty() {
                    self.count(cx).staged.add(stage.own); // the port is full
                }
                self.report_held(cx, &stage);
            }
        }
        lap.unnest(outer);
    }

    /// Records the time at which a port must be polled because the port or its stage holds frames,
    /// and notifies the thread that polls.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn report_held(&self, cx: Cx, stage: &TxStage) {
        if L::SHARED && self.doorbell.get().is_some() {
            let full = (!stage.burst.is_empty()).then(|| cx.now.after(RETRY));
            let held = stage.output.as_ref().and_then(|output| output.next_event());
            for at in [full, held].into_iter().flatten() {
                self.note_held(at);
                self.due(at);
            }
        }
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn flush_stage(&self, cx: Cx, stage: &mut TxStage) {
        let lap = self.resume(cx);
        let outer = lap.nest();
        flush_counted(cx, self.count(cx), stage, lap);
        self.report_held(cx, stage);
        lap.unnest(outer);
    }

    /// Stages a complete frame for `iface`. Passes the frame to the port immediately if `at_once`
    /// requires it.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn stage(&self, cx: Cx, iface: &Iface<L>, frame: Frame, at_once: AtOnce) {
        if iface.tunnel.is_some() {
            return self.tunnel_output(cx, iface, frame, at_once);
        }
        if at_once == AtOnce::Yes {
            let lap = self.resume(cx);
            lap.mark(Stage::LinkOutput, 1);
            return self.stage_at_once(cx, self.count(cx), iface, frame, lap);
        }
        self.stage_locked(cx, iface, &mut self.queue_of(cx, iface).lock(cx), frame);
    }

    /// Stages a complete frame for `iface`, and flushes the stage if a burst is complete.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn stage_at_once(&self, cx: Cx, counters: &Counters, iface: &Iface<L>, frame: Frame, lap: Lap<'_>) {
        let mut stage = self.queue_of(cx, iface).lock(cx);
        let frame = match self.pass_stage(cx, counters, iface, &mut stage, frame) {
            Ok(()) => {
                self.report_held(cx, &stage);
                return lap.mark(Stage::PortTx, 1);
            }
            Err(frame) => frame,
        };
        self.stage_locked(cx, iface, &mut stage, frame);
        if stage.burst.len() as i64 >= self.sysctls.tx_burst.get() {
            flush_counted(cx, counters, &mut stage, lap);
            self.report_held(cx, &stage);
        } else {
            lap.mark(Stage::PortTx, 0); // the frame is counted with its burst
        }
    }

    /// Passes a frame to one queue of `iface`'s port, after the frames that are staged for this
    /// queue.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn stage_alone(&self, cx: Cx, iface: &Iface<L>, queue: usize, frame: Frame) {
        let (counters, lap) = (self.count(cx), self.resume(cx));
        let mut stage = iface.queues.at(|| queue).lock(cx);
        match self.pass_stage(cx, counters, iface, &mut stage, frame) {
            Ok(()) => lap.mark(Stage::PortTx, 1),
            Err(frame) => {
                self.stage_locked(cx, iface, &mut stage, frame);
                flush_counted(cx, counters, &mut stage, lap);
            }
        }
        self.report_held(cx, &stage);
    }

    /// Passes a frame directly to the port if no frame is staged before it and frames are not
    /// collected (`net.link.tx_burst` is 1). This saves the 30 instructions of the stage. Returns
    /// the frame if it cannot be passed directly or the port does not accept it.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn pass_stage(
        &self,
        cx: Cx,
        counters: &Counters,
        iface: &Iface<L>,
        stage: &mut TxStage,
        frame: Frame,
    ) -> Result<(), Frame> {
        match &mut stage.output {
            Some(output) if stage.burst.is_empty() && self.sysctls.tx_burst.get() <= 1 && iface.is_up() => {
                output.output_one(frame, cx.now)?;
                counters.audit.sent.bump();
                counters.ether.sent.bump();
                Ok(())
            }
            _ => Err(frame),
        }
    }

    /// Stages complete frames for `iface`. The caller must flush the stage.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn stage_all(&self, cx: Cx, iface: &Iface<L>, frames: &mut Burst) {
        if iface.tunnel.is_some() {
            return frames.drain().for_each(|frame| self.tunnel_output(cx, iface, frame, AtOnce::Later));
        }
        let mut stage = self.queue_of(cx, iface).lock(cx);
        let room = self.sysctls.tx_queue.get() as usize;
        if stage.output.is_some() && iface.is_up() && stage.burst.len() + frames.len() <= room {
            stage.burst.take_from(frames);
            self.count(cx).staged.add(stage.own);
        } else {
            frames.drain().for_each(|frame| self.stage_locked(cx, iface, &mut stage, frame));
        }
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn stage_locked(&self, cx: Cx, iface: &Iface<L>, stage: &mut TxStage, frame: Frame) {
        let full = stage.burst.len() as i64 >= self.sysctls.tx_queue.get() && !self.make_room(cx, stage);
        if stage.output.is_none() || !iface.is_up() {
            return self.drop_frame(cx, frame, DropReason::TxNoPort);
        }
        if full {
            return self.drop_frame(cx, frame, DropReason::TxQueueFull);
        }
        match stage.burst.push(frame) {
            Ok(()) => self.count(cx).staged.add(stage.own),
            Err(frame) => self.drop_frame(cx, frame, DropReason::TxQueueFull),
        }
    }

    #[cold]
    #[inline(never)]
    fn make_room(&self, cx: Cx, stage: &mut TxStage) -> bool {
        self.flush_stage(cx, stage);
        (stage.burst.len() as i64) < self.sysctls.tx_queue.get()
    }
}

#[inline(always)]
fn flush_counted(cx: Cx, counters: &Counters, stage: &mut TxStage, lap: Lap<'_>) {
    let sent = stage.flush(cx.now) as u64;
    counters.audit.sent.add(sent);
    counters.ether.sent.add(sent);
    lap.mark(Stage::PortTx, sent);
}
