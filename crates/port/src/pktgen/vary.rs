//! Interface between the generator and the address families, which vary its frames.

use super::source::Source;
use super::template::fill;
use buf::Frame;

/// Differences between the generated frames of one address family.
pub(super) trait Vary: Clone + Send {
    fn new(source: &Source, template: &[u8]) -> Self;

    /// Returns whether any field varies from frame to frame.
    fn is_any(&self) -> bool;

    /// Patches the varying fields in a copy of the template.
    fn vary(&mut self, frame: &mut Frame);

    /// Fills the frames with copies of the template and varies them.
    fn make(&mut self, frames: &mut [Frame], template: &[u8]);
}

/// Copies the template into the frames and varies each copy. `variety` is copied for the duration
/// of the burst, so that the compiler keeps it in registers; otherwise it would be reloaded after
/// each write to a frame.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(super) fn copy_and_vary<V: Vary>(variety: &mut V, frames: &mut [Frame], template: &[u8]) {
    let mut own = variety.clone();
    let varies = own.is_any();
    for frame in frames {
        fill(frame, template);
        if varies {
            own.vary(frame);
        }
    }
    *variety = own;
}
