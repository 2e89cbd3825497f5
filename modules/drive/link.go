package drive

import (
	"context"
	"io"
	"net/url"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/portico-run/portico/internal/actor"
	"github.com/portico-run/portico/internal/errs"
)

// Link opens one file to whoever has it, until it expires.
type Link struct {
	URL       string
	ExpiresAt time.Time
}

// ErrLink is returned for a link that is malformed, forged or expired.
var ErrLink = errs.New(errs.Unauthorized, "The link is not valid, or has expired.")

// linkAudience keeps links apart from other things that are signed.
const linkAudience = "drive"

// Link makes a link to a file of the caller's. It is valid for a time, or for
// the server's usual one if that is 0.
func (s *Service) Link(ctx context.Context, a actor.Actor, fileID string, life time.Duration) (Link, error) {
	f, err := s.Get(ctx, a, fileID)
	if err != nil {
		return Link{}, err
	}
	if life == 0 {
		life = s.settings.LinkLife
	}
	expires := s.now().Add(life).Truncate(time.Second)
	token, err := s.linkKeys.Token(jwt.RegisteredClaims{
		Subject: a.UID, ID: f.FileID, Audience: jwt.ClaimStrings{linkAudience}, ExpiresAt: jwt.NewNumericDate(expires),
	})
	if err != nil {
		return Link{}, err
	}
	return Link{URL: s.settings.Endpoint + "/v1/drive/file/shared?token=" + url.QueryEscape(token), ExpiresAt: expires}, nil
}

// Follow opens the file of a link, whoever has it.
func (s *Service) Follow(ctx context.Context, token string) (File, io.ReadSeekCloser, error) {
	var claims jwt.RegisteredClaims
	err := s.linkKeys.Parse(token, &claims, jwt.WithAudience(linkAudience), jwt.WithTimeFunc(s.now))
	if err != nil {
		return File{}, nil, ErrLink.Do("Ask for a new one.").With(err)
	}
	return s.Open(ctx, actor.Actor{UID: claims.Subject}, claims.ID)
}
