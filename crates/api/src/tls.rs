//! Default HTTP client of a [`Client`](crate::Client): TLS, timeouts, proxies, redirects.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{ClientBuilder, Url};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest gap between two reads of a response; a slow but steady response has no limit.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the builder of the default HTTP client, for any base URL: TLS by the features of this crate, idle
/// timeouts, and proxies from the environment. The HTTP client follows no redirects, because they would
/// receive the API key; the [`Client`](crate::Client) follows safe ones itself.
///
/// Every setting of the builder takes effect. Each HTTP client loads the certificates of the system, which takes
/// several milliseconds; [`http_client_builder_sharing_tls`] avoids that if no TLS setting is changed. For a known
/// base URL prefer [`http_client_builder_for`].
pub fn http_client_builder() -> ClientBuilder {
    let builder = basic_builder();
    #[cfg(any(feature = "rustls", feature = "rustls-ring"))]
    let builder = over_rustls::choose(builder);
    builder
}

/// Like [`http_client_builder`], with TLS settings that all clients of the process share: the certificates of the
/// system are loaded once, at the first `https` connection. Use this only if no TLS setting is changed, because reqwest
/// ignores TLS settings beside these.
///
/// With `native-tls` alone, nothing is shared.
pub fn http_client_builder_sharing_tls() -> ClientBuilder {
    let builder = basic_builder();
    #[cfg(any(feature = "rustls", feature = "rustls-ring"))]
    let builder = over_rustls::share(builder);
    builder
}

/// Returns the builder that trusts the certificates of a PEM file beside those of the system: of authorities, or a
/// self-signed one of a server, even if it is made as that of an authority.
///
/// # Errors
///
/// [`BuildError::AddedCertificates`] if the text is no PEM file with certificates; [`BuildError::TlsDisabled`] without
/// a TLS feature.
pub fn trust_certificates(builder: ClientBuilder, pem: &[u8]) -> Result<ClientBuilder, BuildError> {
    #[cfg(any(feature = "rustls", feature = "rustls-ring"))]
    return over_rustls::trust(builder, pem).map_err(BuildError::AddedCertificates);
    #[cfg(all(feature = "native-tls", not(any(feature = "rustls", feature = "rustls-ring"))))]
    return match reqwest::Certificate::from_pem_bundle(pem) {
        Ok(certificates) if certificates.is_empty() => {
            Err(BuildError::AddedCertificates(NO_CERTIFICATE.to_owned()))
        }
        Ok(certificates) => Ok(builder.tls_certs_merge(certificates)),
        Err(error) => Err(BuildError::AddedCertificates(error.to_string())),
    };
    #[cfg(not(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls")))]
    {
        let _ = (builder, pem);
        Err(BuildError::TlsDisabled)
    }
}

#[cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
const NO_CERTIFICATE: &str = "it is no PEM file with certificates";

fn basic_builder() -> ClientBuilder {
    reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        .redirect(Policy::none())
}

/// Like [`http_client_builder`], for one base URL: uses no proxy for [plain `http` to this
/// machine](is_plain_loopback), because a proxy from the environment would send the API key unencrypted to
/// another machine.
pub fn http_client_builder_for(base_url: &str) -> ClientBuilder {
    without_proxy_to_this_machine(http_client_builder(), base_url)
}

/// Returns the builder without proxies if the base URL is [plain `http` to this machine](is_plain_loopback).
pub fn without_proxy_to_this_machine(builder: ClientBuilder, base_url: &str) -> ClientBuilder {
    match Url::parse(base_url.trim()) {
        Ok(url) if is_plain_loopback(&url) => builder.no_proxy(),
        _ => builder,
    }
}

/// Returns true for plain `http` to this machine, which needs no proxy and no encryption.
pub fn is_plain_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let is_loopback = match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    };
    url.scheme() == "http" && is_loopback
}

/// Checks that `https` requests can succeed.
///
/// With `native-tls` alone, the certificates are not checked.
///
/// # Errors
///
/// [`BuildError::TlsDisabled`] without a TLS feature; [`BuildError::RootCertificates`] if the certificates of
/// the operating system cannot be loaded. A client with certificates of its own still works.
pub fn https_support() -> Result<(), BuildError> {
    #[cfg(any(feature = "rustls", feature = "rustls-ring"))]
    return over_rustls::check();
    #[cfg(not(any(feature = "rustls", feature = "rustls-ring")))]
    if cfg!(feature = "native-tls") { Ok(()) } else { Err(BuildError::TlsDisabled) }
}

/// Checks [`https_support`] if the base URL needs it.
pub(crate) fn check_support_for(base_url: &str) -> Result<(), BuildError> {
    let is_https = Url::parse(base_url.trim()).is_ok_and(|url| url.scheme() == "https");
    if is_https { https_support() } else { Ok(()) }
}

/// Reason why a [`Client`](crate::Client) cannot be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The base URL needs `https`, but the crate was built without a TLS feature.
    TlsDisabled,
    /// The certificates of the operating system cannot be loaded, with the reason.
    RootCertificates(String),
    /// The certificates of [`trust_certificates`] cannot be used, with the reason.
    AddedCertificates(String),
    /// The HTTP client cannot be built.
    Http(reqwest::Error),
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Http(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TlsDisabled => f.write_str(
                "https is not supported, because inferstore-api was built without rustls, rustls-ring and \
                 native-tls",
            ),
            Self::RootCertificates(reason) => {
                write!(f, "the root certificates of the system cannot be loaded: {reason}")
            }
            Self::AddedCertificates(reason) => write!(f, "there is no usable certificate: {reason}"),
            Self::Http(_) => f.write_str("the HTTP client cannot be built"),
        }
    }
}

#[cfg(feature = "rustls-ring")]
pub use over_rustls::install_ring;

#[cfg(any(feature = "rustls", feature = "rustls-ring"))]
mod over_rustls {
    use std::sync::{Arc, LazyLock, OnceLock};

    use reqwest::ClientBuilder;
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::client::verify_server_name;
    use rustls::crypto::CryptoProvider;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::server::ParsedCertificate;
    use rustls::{
        CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    };
    use rustls_platform_verifier::Verifier;

    use super::{BuildError, NO_CERTIFICATE};

    /// Verifier with the certificates of the system, whose loading takes most of the time of a short program. An
    /// error has the reason why there are none.
    static VERIFIER: LazyLock<Result<Verifier, String>> =
        LazyLock::new(|| Verifier::new(provider()).map_err(|error| error.to_string()));

    /// Shared TLS settings.
    static SHARED: LazyLock<Result<ClientConfig, Error>> = LazyLock::new(|| config(LazyVerifier::default()));

    fn config(verifier: LazyVerifier) -> Result<ClientConfig, Error> {
        let builder =
            ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
        Ok(builder.with_no_client_auth())
    }

    /// Verifier that loads the certificates of the system at the first handshake.
    #[derive(Debug, Default)]
    struct LazyVerifier {
        /// Certificates that are trusted beside those of the system.
        own: Vec<CertificateDer<'static>>,
        /// The verifier with `own`, if there are any.
        with_own: OnceLock<Result<Verifier, String>>,
    }

    impl LazyVerifier {
        fn loaded(&self) -> Result<&Verifier, Error> {
            if self.own.is_empty() {
                return verifier().map_err(|error| Error::General(error.to_string()));
            }
            let load = || Verifier::new_with_extra_roots(self.own.iter().cloned(), provider());
            let loaded = self.with_own.get_or_init(|| load().map_err(|error| error.to_string()));
            loaded.as_ref().map_err(|reason| Error::General(reason.clone()))
        }

        /// Returns true if the certificate is valid now and trusted itself, but is that of an authority, which
        /// cannot be the end of a chain. Its time is checked before.
        fn is_own_authority(&self, certificate: &CertificateDer<'_>, error: &Error) -> bool {
            let Error::InvalidCertificate(CertificateError::Other(cause)) = error else { return false };
            format!("{cause:?}").contains("CaUsedAsEndEntity") && self.own.contains(certificate)
        }
    }

    impl ServerCertVerifier for LazyVerifier {
        fn verify_server_cert(
            &self,
            end_entity: &CertificateDer<'_>,
            intermediates: &[CertificateDer<'_>],
            server_name: &ServerName<'_>,
            ocsp_response: &[u8],
            now: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            let verifier = self.loaded()?;
            match verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
                Err(error) if self.is_own_authority(end_entity, &error) => {
                    verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                    Ok(ServerCertVerified::assertion())
                }
                verified => verified,
            }
        }

        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.loaded()?.verify_tls12_signature(message, certificate, signature)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.loaded()?.verify_tls13_signature(message, certificate, signature)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            let all = || provider().signature_verification_algorithms.supported_schemes();
            self.loaded().map_or_else(|_| all(), ServerCertVerifier::supported_verify_schemes)
        }
    }

    fn verifier() -> Result<&'static Verifier, BuildError> {
        VERIFIER.as_ref().map_err(|reason| BuildError::RootCertificates(reason.clone()))
    }

    pub(super) fn check() -> Result<(), BuildError> {
        verifier().map(drop)
    }

    pub(super) fn choose(builder: ClientBuilder) -> ClientBuilder {
        let builder = over_rustls(builder);
        match check() {
            Ok(()) => builder,
            // A system without certificates, such as a bare container, still supports `http` and added
            // certificates.
            Err(_) => builder.tls_certs_only([]),
        }
    }

    pub(super) fn share(builder: ClientBuilder) -> ClientBuilder {
        match &*SHARED {
            Ok(config) => over_rustls(builder).tls_backend_preconfigured(config.clone()),
            Err(_) => choose(builder),
        }
    }

    pub(super) fn trust(builder: ClientBuilder, pem: &[u8]) -> Result<ClientBuilder, String> {
        let own: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let own = own.map_err(|error| error.to_string())?;
        if own.is_empty() {
            return Err(NO_CERTIFICATE.to_owned());
        }
        for certificate in &own {
            RootCertStore::empty().add(certificate.clone()).map_err(|error| error.to_string())?;
        }
        let config = config(LazyVerifier { own, ..LazyVerifier::default() });
        let config = config.map_err(|error| error.to_string())?;
        Ok(over_rustls(builder).tls_backend_preconfigured(config))
    }

    fn over_rustls(builder: ClientBuilder) -> ClientBuilder {
        #[cfg(not(feature = "rustls"))]
        install_ring();
        // If another crate enables `native-tls`, reqwest uses that by default.
        builder.tls_backend_rustls()
    }

    /// Installs ring as the crypto provider of rustls for the process, unless one is installed.
    ///
    /// With `rustls-ring` and without `rustls`, the first HTTP client of this crate does this. Every other
    /// `reqwest::Client` of the program needs a provider too and panics without one, unless a crate enables
    /// the feature `rustls` of reqwest: a program that builds such clients first calls this function first.
    #[cfg(feature = "rustls-ring")]
    pub fn install_ring() {
        if CryptoProvider::get_default().is_none() {
            // Another thread may have installed one.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
    }

    /// Returns the provider that reqwest uses.
    fn provider() -> Arc<CryptoProvider> {
        #[cfg(feature = "rustls")]
        let fallback = rustls::crypto::aws_lc_rs::default_provider;
        #[cfg(not(feature = "rustls"))]
        let fallback = rustls::crypto::ring::default_provider;
        CryptoProvider::get_default().cloned().unwrap_or_else(|| Arc::new(fallback()))
    }

    #[cfg(test)]
    mod tests {
        #[test]
        fn aws_lc_is_preferred_to_ring() {
            let provider = format!("{:?}", super::provider().key_provider);
            let expected = if cfg!(feature = "rustls") { "AwsLcRs" } else { "Ring" };
            assert_eq!(provider, expected);
        }
    }
}

#[cfg(test)]
mod tests {
    use reqwest::Url;

    use super::{BuildError, check_support_for};

    #[test]
    fn only_plain_http_to_this_machine_is_loopback() {
        let is_plain_loopback = |text| Url::parse(text).is_ok_and(|url| super::is_plain_loopback(&url));
        for base_url in [
            "http://127.0.0.1:8787/api/v1",
            "http://127.9.9.9/api/v1",
            "http://[::1]/api/v1",
            "http://[::ffff:127.0.0.1]/api/v1",
            "http://LOCALHOST/api/v1",
            " http://a.localhost/api/v1",
        ] {
            assert!(is_plain_loopback(base_url), "{base_url}");
        }
        for base_url in [
            "https://127.0.0.1/api/v1",
            "http://10.0.0.1/api/v1",
            "http://localhost.example/api/v1",
            "localhost",
        ] {
            assert!(!is_plain_loopback(base_url), "{base_url}");
        }
    }

    #[cfg(any(feature = "rustls", feature = "rustls-ring"))]
    #[test]
    fn added_certificates_that_cannot_be_used_are_an_error_about_them() {
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        use super::{http_client_builder, trust_certificates};

        for (pem, reason) in [("no certificate", "no PEM file"), (broken, "BadEncoding")] {
            let trusted = trust_certificates(http_client_builder(), pem.as_bytes());
            let text = trusted.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(text.contains(reason) && !text.contains("of the system"), "{text}");
        }
    }

    #[test]
    fn https_is_refused_without_a_tls_feature() {
        let has_tls = cfg!(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"));
        let supported = check_support_for("https://host.example/api/v1");
        assert_eq!(matches!(supported, Err(BuildError::TlsDisabled)), !has_tls, "{supported:?}");
        assert!(check_support_for("http://host.example/api/v1").is_ok());
    }
}
