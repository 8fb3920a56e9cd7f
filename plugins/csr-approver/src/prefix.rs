//! Ranges of IP addresses, such as `192.168.8.0/22`.

use std::net::IpAddr;

/// All addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prefix {
    network: IpAddr,
    bits: u8,
}

impl Prefix {
    /// Reads a range. The error says what is wrong.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let malformed = || format!("{text:?} is not an IP range: write it like 192.168.8.0/22 or fc00::/7");
        let (network, bits) = text.trim().split_once('/').ok_or_else(malformed)?;
        let network: IpAddr = network.parse().map_err(|_| malformed())?;
        let bits: u8 = bits.parse().map_err(|_| malformed())?;
        if bits > width(network) { Err(malformed()) } else { Ok(Self { network, bits }) }
    }

    /// Whether the range contains the address. An IPv4 address that is written as an IPv6 address is an IPv4 address.
    pub(crate) fn contains(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let all = width(self.network);
        let differing = (number(self.network) ^ number(address)).checked_shr(u32::from(all - self.bits)).unwrap_or(0);
        address.is_ipv4() == self.network.is_ipv4() && differing == 0
    }
}

/// The length of an address in bits.
fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}
