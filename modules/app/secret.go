package app

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/portico-run/portico/configs"
	"github.com/portico-run/portico/internal/signing"
	"github.com/portico-run/portico/modules/account"
)

// secretFile holds the secret of session tokens where none is configured, which
// only development allows. The server and the commands read the same file, so
// that a token of one is good for the other, and for the next start.
const secretFile = "jwt-secret"

// minTokenSecret is what RFC 7518 asks of an HS256 key, in bytes.
const minTokenSecret = 32

func (a *App) accounts() (*account.Module, error) {
	keys, err := tokenKeys(a.Config)
	if err != nil {
		return nil, err
	}
	hosts, err := a.hosts()
	if err != nil {
		return nil, err
	}
	return account.New(account.Deps{
		DB: a.DB, TokenKeys: keys, TokenLife: a.Config.Server.JWTExpiration, Hosts: hosts, Apps: a.appTokens(), Logger: a.Logger, Wake: a.Hub,
	}), nil
}

// tokenKeys are those of session tokens: the secret, and old ones.
func tokenKeys(c *configs.Config) (signing.Keys, error) {
	secret, err := tokenSecret(c)
	if err != nil {
		return nil, err
	}
	return keysOf(secret, c.Server.OldJWTSecrets()), nil
}

// serverKeys are those that the keys of other tokens are made of.
func serverKeys(c *configs.Config) signing.Keys {
	return keysOf([]byte(c.Server.EncryptionKey.Reveal()), c.Server.OldEncryptionKeys())
}

func keysOf(first []byte, old []string) signing.Keys {
	keys := signing.Keys{first}
	for _, k := range old {
		keys = append(keys, []byte(k))
	}
	return keys
}

// tokenSecret signs session tokens.
func tokenSecret(c *configs.Config) ([]byte, error) {
	if secret := c.Server.JWTSecret.Reveal(); secret != "" {
		return []byte(secret), nil
	}
	secret, err := sharedSecret(filepath.Join(dataFolder(c), secretFile))
	if err != nil {
		return nil, fmt.Errorf("the secret of session tokens (set JWT_SECRET to have none in a file): %w", err)
	}
	return secret, nil
}

// dataFolder is where this installation keeps its files: beside the database,
// or beside the objects.
func dataFolder(c *configs.Config) string {
	if path, ok := strings.CutPrefix(c.Database.URL.Reveal(), "sqlite:"); ok {
		return filepath.Dir(path)
	}
	return filepath.Dir(filepath.Clean(c.ObjectStorage.Folder))
}

// sharedSecret reads the file, or makes it: for its owner only, and whole when
// it appears, so that two processes that start at once have the same secret.
func sharedSecret(path string) ([]byte, error) {
	secret, err := readSecret(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return secret, err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(dir, secretFile+"-*") // mode 0600
	if err != nil {
		return nil, err
	}
	_, err = file.WriteString(rand.Text() + rand.Text())
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Link(file.Name(), path)
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil // another process was faster: its secret counts
	}
	if err := errors.Join(err, os.Remove(file.Name())); err != nil {
		return nil, err
	}
	return readSecret(path)
}

func readSecret(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("others may read %s: run chmod 600 on it, or delete it to have another made", path)
	}
	secret, err := os.ReadFile(path)
	if err == nil && len(secret) < minTokenSecret {
		err = fmt.Errorf("%s is damaged: delete it to have another made", path)
	}
	return secret, err
}
