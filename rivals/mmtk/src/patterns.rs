//! What many threads do to a heap, step by step as in `gleaner-bench native`: one allocates and others consume, many
//! share data and allocate little, many stop each other all the time.

mod agents;
mod producer;
mod render;
mod tiny;

pub use agents::agents;
pub use producer::producer;
pub use render::render;
pub use tiny::tiny;
