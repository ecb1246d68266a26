//! The proxy between this program and a cloud, where a platform has one.

use std::fmt;
use std::str::FromStr;

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use url::Url;

/// An HTTP proxy for servers of OpenStack with HTTPS. A server without HTTPS is connected to directly, since the proxy could
/// read every token, and so is one of this machine.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpsProxy {
    url: Url,
    exceptions: String,
}

impl HttpsProxy {
    /// The same proxy, but not for these servers: host names, which stand for their subdomains too, addresses and CIDR
    /// ranges, separated by commas.
    pub fn except(self, exceptions: &str) -> Self {
        Self { exceptions: exceptions.to_owned(), ..self }
    }

    /// `HTTPS_PROXY` and `NO_PROXY`, as command line programs read them. A pod may have them for other reasons.
    pub fn from_environment() -> Option<Self> {
        let read = |names: [&str; 2]| names.into_iter().find_map(|name| std::env::var(name).ok());
        let url = read(["HTTPS_PROXY", "https_proxy"]).filter(|url| !url.is_empty())?;
        // It may be written without a scheme.
        let with_scheme = if url.contains("://") { url } else { format!("http://{url}") };
        match with_scheme.parse::<Self>() {
            Ok(proxy) => Some(proxy.except(&read(["NO_PROXY", "no_proxy"]).unwrap_or_default())),
            Err(problem) => {
                tracing::warn!("HTTPS_PROXY is ignored: {problem}");
                None
            }
        }
    }

    pub(super) fn host(&self) -> Option<&str> {
        self.url.host_str()
    }

    /// Says which connections go through the proxy, and with which credentials.
    pub(super) fn matcher(&self) -> Matcher {
        let exceptions = format!("{},localhost,127.0.0.0/8,::1", self.exceptions);
        Matcher::builder().https(self.url.as_str()).no(exceptions).build()
    }
}

/// Without the user and the password that its URL may have.
impl fmt::Debug for HttpsProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpsProxy").field("host", &self.host()).field("exceptions", &self.exceptions).finish()
    }
}

impl FromStr for HttpsProxy {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        // The matcher would ignore a proxy whose URL is no URI.
        let url = url.filter(|url| url.as_str().parse::<Uri>().is_ok());
        let url = url.ok_or("expected the URL of a proxy, such as http://proxy.example.com:3128")?;
        Ok(Self { url, exceptions: String::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::HttpsProxy;

    #[test]
    fn its_password_is_not_shown() {
        let proxy: HttpsProxy = "http://user:secret@proxy:3128".parse().unwrap();
        assert!(!format!("{proxy:?}").contains("secret"), "{proxy:?}");
    }

    #[test]
    fn a_proxy_is_a_url_with_a_host() {
        for good in ["http://proxy:3128", "https://user:secret@proxy.example.com", "http://[fd00::1]:3128/"] {
            assert!(good.parse::<HttpsProxy>().is_ok(), "{good}");
        }
        for bad in ["", "proxy", "proxy:3128", "socks5://proxy:1080", "http://", "/proxy", "http://{proxy}"] {
            assert!(bad.parse::<HttpsProxy>().is_err(), "{bad}");
        }
    }
}
