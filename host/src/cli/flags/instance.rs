//! The names of installations on the command line.

/// The longest name of an installation. The names of its leases contain it.
const INSTANCE_BYTES_MAX: usize = 30;

/// Reads the name of an installation.
pub(super) fn instance(text: &str) -> Result<String, String> {
    if windlass_manifest::is_dns_label(text) && text.len() <= INSTANCE_BYTES_MAX {
        Ok(text.to_owned())
    } else {
        Err(format!("the name of an installation has up to {INSTANCE_BYTES_MAX} lower-case letters, digits and dashes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_installation_fits_into_names() {
        assert!(instance("team-1").is_ok());
        assert!(instance("").is_err() && instance("Team").is_err() && instance(&"a".repeat(31)).is_err());
    }
}
