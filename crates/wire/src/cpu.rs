//! Detection of the CPU's vector instructions.

/// Returns whether this machine has all of the given features of x86-64: detected at run time or,
/// without the standard library, enabled for the whole build.
#[cfg(target_arch = "x86_64")]
macro_rules! has_features {
    ($($name:tt),+) => {{
        #[cfg(feature = "std")]
        let has = [$(std::arch::is_x86_feature_detected!($name)),+];
        #[cfg(not(feature = "std"))]
        let has = [$(cfg!(target_feature = $name)),+];
        !has.contains(&false)
    }};
}

#[cfg(target_arch = "x86_64")]
pub(crate) use has_features;
