//! The two directions of a flow, and values for each.

/// Direction of a frame, from the station's point of view.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Direction {
    /// The station sends the frame, and the port receives it.
    Sent,
    /// The station receives the frame, and the port sends it.
    Received,
}

/// A value for each direction.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Both<T> {
    pub sent: T,
    pub received: T,
}

impl<T> Both<T> {
    pub fn get(&self, direction: Direction) -> &T {
        match direction {
            Direction::Sent => &self.sent,
            Direction::Received => &self.received,
        }
    }

    pub fn get_mut(&mut self, direction: Direction) -> &mut T {
        match direction {
            Direction::Sent => &mut self.sent,
            Direction::Received => &mut self.received,
        }
    }
}
