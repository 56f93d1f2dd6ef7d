/**
 * A certificate for 127.0.0.1, valid until 2126, and its key. For tests alone: everybody has them.
 *
 * Made by `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -days 36500 -subj '/CN=stoa test database'
 * -addext 'subjectAltName=IP:127.0.0.1,DNS:localhost'`.
 */
export const testCertificate = {
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgvXmecpncwUuQ7JqW
9t+DRz6NgtcDGfzOAvbVU/95n4uhRANCAAS2HXBK8tdSh6v+S4fLWe1B34Vun66y
XLenJXT2f+qN2K2kgP0JU2C8VsIYEch6ndfPjVCjVPlcFjC3gvjofvAd
-----END PRIVATE KEY-----
`,
  cert: `-----BEGIN CERTIFICATE-----
MIIBrTCCAVOgAwIBAgIUPfY7yD11q12fAGp4HjuqD9hKGVMwCgYIKoZIzj0EAwIw
HTEbMBkGA1UEAwwSc3RvYSB0ZXN0IGRhdGFiYXNlMCAXDTI2MTEyMzA3MjMwN1oY
DzIxMjYxMDMwMDcyMzA3WjAdMRswGQYDVQQDDBJzdG9hIHRlc3QgZGF0YWJhc2Uw
WTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAS2HXBK8tdSh6v+S4fLWe1B34Vun66y
XLenJXT2f+qN2K2kgP0JU2C8VsIYEch6ndfPjVCjVPlcFjC3gvjofvAdo28wbTAd
BgNVHQ4EFgQUNvIpI7kxyZYXfQB4uOr5MYybvMwwHwYDVR0jBBgwFoAUNvIpI7kx
yZYXfQB4uOr5MYybvMwwDwYDVR0TAQH/BAUwAwEB/zAaBgNVHREEEzARhwR/AAAB
gglsb2NhbGhvc3QwCgYIKoZIzj0EAwIDSAAwRQIhAKyPEdTtGW0axWOFWKYy4Tb2
Eo5vTdsoXBXgtwwNwY5eAiA8fBBxr6LPjVV9bZ4sf+Wy3H7teNlVbe37RWvfRiqZ
yg==
-----END CERTIFICATE-----
`,
}
