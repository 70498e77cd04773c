//! Images of containers: where they come from and their unpacked layers.

mod digest;
mod model;
mod options;

pub use digest::{Digest, InvalidDigest};
pub use model::{ImageConfig, ImageSummary, PreparedImage, PullPolicy, RegistryAuth};
pub use options::{DEFAULT_REGISTRY, ImageOptions};
