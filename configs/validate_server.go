package configs

import (
	"encoding/hex"
	"slices"
	"strings"
	"time"
)

func (l *loader) validateServer() {
	s := &l.config.Server
	l.must(&s.Listen, isAddress(s.Listen), `must be an address like ":5800" or "127.0.0.1:5800"`)
	l.must(&s.Endpoint, isBaseURL(s.Endpoint), "must be an address like https://api.example.com, without credentials or a query")
	l.must(&s.Endpoint, !strings.HasSuffix(s.Endpoint, "/v1"), "must not end with /v1: the paths of the API add it")
	l.mustBeOneOf(&s.Mode, Development, Production)
	for _, origin := range s.Origins {
		l.must(&s.Origins, isOrigin(origin), "must be origins like https://app.example.com, separated by commas; * cannot be allowed together with credentials")
	}
	mustBeWithin(l, &s.JWTExpiration, time.Minute, 366*24*time.Hour, "between 1m and 366d")
	mustBeWithin(l, &s.BodyLimit, kib, 1024*mib, "between 1KiB and 1GiB")
	mustBeWithin(l, &s.ShutdownGrace, 0, time.Hour, "between 0s and 1h")
	mustBeWithin(l, &s.DrainDelay, 0, time.Hour, "between 0s and 1h")
	mustBeWithin(l, &s.DrainTimeout, 0, 24*time.Hour, "between 0s and 24h")
}

func (l *loader) validatePeers() {
	p := &l.config.Peers
	l.must(&p.Listen, p.Listen == "" || isAddress(p.Listen), `must be an address like ":5802" or "10.0.0.5:5802"`)
	l.must(&p.Address, p.Address == "" || isAddress(p.Address) && !strings.HasPrefix(p.Address, ":"), `must be an address like "10.0.0.5:5802"`)
	l.must(&p.Address, p.Address == "" || p.Listen != "", "needs PORTICO_PEER_LISTEN")
	l.must(&p.Address, p.Address != "" || !strings.HasPrefix(p.Listen, ":") && !strings.HasPrefix(p.Listen, "0.0.0.0:"), "must be set where PORTICO_PEER_LISTEN names no host")
	whole := (p.Certificate == "") == (p.Key == "") && (p.Key == "") == (p.Authority == "")
	for _, file := range []*string{&p.Certificate, &p.Key, &p.Authority} {
		l.must(file, *file == "" || whole, "needs the other two of PORTICO_PEER_TLS_…: all three or none")
	}
	// Whoever has a key of tokens between processes acts as any user.
	l.must(&p.Listen, p.Listen == "" || !l.developmentKeyCounts() || IsLoopback("http://"+p.Listen),
		"needs an ENCRYPTION_KEY of your own, since whoever knows it acts as any user there, and everybody knows the development key; make one with: openssl rand -hex 32")
	l.must(&p.Listen, p.Listen == "" || !strings.HasPrefix(l.config.Database.URL.Reveal(), "sqlite:"), "needs PostgreSQL: other processes find this one there")
}

// developmentKeyCounts reports whether what everybody can sign is taken.
func (l *loader) developmentKeyCounts() bool {
	return slices.ContainsFunc(append(l.config.Server.OldEncryptionKeys(), l.config.Server.EncryptionKey.Reveal()),
		func(key string) bool { return strings.EqualFold(key, developmentKey) })
}

func (l *loader) validateSignIn() {
	s := &l.config.SignIn
	l.mustBeOneOf(&s.SignUp, SignUpOff, SignUpInvite, SignUpOpen)
	o := &s.OIDC
	l.must(&o.Issuer, o.Issuer == "" || isBaseURL(o.Issuer), "must be an address like https://id.example.com, without credentials or a query")
	l.must(&o.ClientID, o.Issuer == "" || o.ClientID != "", "must be set when OIDC_ISSUER is")
	l.must(&o.ClientID, o.Issuer != "" || o.ClientID == "", "needs OIDC_ISSUER")
	l.must(&o.Secret, o.Issuer != "" || o.Secret == "", "needs OIDC_ISSUER")
	l.must(&o.LinkEmail, !o.LinkEmail || s.SignUp != SignUpOpen, "must be false where everybody may sign up: addresses of users who sign up are not verified")
	l.must(&o.LinkEmail, o.Issuer != "" || !o.LinkEmail, "needs OIDC_ISSUER")
}

func (l *loader) validateSecrets() {
	s := &l.config.Server
	if s.Role == RoleSandbox {
		l.validateSecretless()
		return
	}
	if s.Mode == Production {
		l.must(&s.JWTSecret, len(s.JWTSecret) >= minSecret,
			"must have at least 32 characters in production; make one with: openssl rand -hex 32")
		l.must(&s.EncryptionKey, s.EncryptionKey != "",
			"must be set in production; make one with: openssl rand -hex 32")
		l.must(&s.EncryptionKey, !strings.EqualFold(s.EncryptionKey.Reveal(), developmentKey),
			"must not be the development key, which everybody knows; make one with: openssl rand -hex 32")
	}
	if s.EncryptionKey != "" {
		key, err := hex.DecodeString(s.EncryptionKey.Reveal())
		l.must(&s.EncryptionKey, err == nil && len(key) == keyLength,
			"must be 64 hexadecimal digits; make them with: openssl rand -hex 32")
	}
	for _, old := range s.OldEncryptionKeys() {
		key, err := hex.DecodeString(old)
		l.must(&s.EncryptionKeysOld, err == nil && len(key) == keyLength, "must be keys of 64 hexadecimal digits, with commas between them")
		l.must(&s.EncryptionKeysOld, !strings.EqualFold(old, s.EncryptionKey.Reveal()), "must not name the key of ENCRYPTION_KEY")
		l.must(&s.EncryptionKeysOld, s.Mode != Production || !strings.EqualFold(old, developmentKey),
			"must not name the development key, with which everybody could sign; in development mode, portico key rotate seals with another one")
	}
	for _, old := range s.OldJWTSecrets() {
		l.must(&s.JWTSecretsOld, len(old) >= minSecret && len(old) <= maxSecret, "must be secrets of 32 to 256 characters, with commas between them")
		l.must(&s.JWTSecretsOld, old != s.JWTSecret.Reveal(), "must not name the secret of JWT_SECRET")
	}
}
