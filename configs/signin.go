package configs

// Who may sign up.
const (
	SignUpOff    = "off"
	SignUpInvite = "invite"
	SignUpOpen   = "open"
)

// SignIn says how people sign in.
type SignIn struct {
	// SignUp says who may make a user of their own: SignUpOff for nobody,
	// SignUpInvite for whoever has an invitation, SignUpOpen for everybody.
	SignUp string `key:"signUp" env:"SIGNUP"`
	OIDC   OIDC   `key:"oidc"`
}

// OIDC is a provider of OpenID Connect that people sign in with. Without an issuer
// there is none.
type OIDC struct {
	Issuer   string `key:"issuer" env:"OIDC_ISSUER"`
	ClientID string `key:"clientId" env:"OIDC_CLIENT_ID"`
	Secret   Secret `key:"secret" env:"OIDC_SECRET"`
	// LinkEmail lets a person be the user who has their verified e-mail address.
	LinkEmail bool `key:"linkEmail" env:"OIDC_LINK_EMAIL"`
}
