package fetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"golang.org/x/net/html/charset"
)

// maxSitemaps is how many sitemaps one index may name.
const maxSitemaps = 500

// listed is one sitemap: addresses of pages, or of other sitemaps.
type listed struct {
	pages, sitemaps []string
}

// pages are the pages of a sitemap and of those that it names, without those
// of other hosts, which skip is told of.
func (s *Service) pages(ctx context.Context, at *url.URL, skip func(page string, why error) error) ([]*url.URL, error) {
	first, err := s.sitemap(ctx, at)
	if err != nil {
		return nil, err
	}
	if len(first.sitemaps) > maxSitemaps {
		return nil, ErrSitemap.Do(fmt.Sprintf("It is an index of %d sitemaps; at most %d are read. Give one of them.", len(first.sitemaps), maxSitemaps))
	}
	all := first.pages
	for _, address := range first.sitemaps {
		next, err := at.Parse(address)
		if err != nil || next.Host != at.Host {
			if err := skip(address, errHost); err != nil {
				return nil, err
			}
			continue
		}
		inner, err := s.sitemap(ctx, next)
		if err != nil {
			return nil, err
		}
		if all = append(all, inner.pages...); len(all) > s.settings.MaxPages {
			break
		}
	}
	if len(all) > s.settings.MaxPages {
		return nil, ErrSitemap.Do(fmt.Sprintf("It lists more than %d pages (FETCH_MAX_PAGES). Give the sitemap of a part of the site.", s.settings.MaxPages))
	}
	var list []*url.URL
	seen := map[string]bool{}
	for _, address := range all {
		page, err := at.Parse(address)
		if err != nil || page.Host != at.Host || page.User != nil || page.Scheme != "http" && page.Scheme != "https" {
			if err := skip(address, errHost); err != nil {
				return nil, err
			}
			continue
		}
		page.Fragment = ""
		if !seen[page.String()] {
			seen[page.String()] = true
			list = append(list, page)
		}
	}
	return list, nil
}

// sitemap reads one sitemap, packed or not.
func (s *Service) sitemap(ctx context.Context, at *url.URL) (listed, error) {
	within, cancel := context.WithTimeout(ctx, s.settings.Timeout)
	defer cancel()
	a, err := s.get(within, at, nil)
	if err != nil {
		return listed{}, err
	}
	body := a.Body
	if bytes.HasPrefix(body, []byte{0x1f, 0x8b}) {
		if body, err = s.unpack(body); err != nil {
			return listed{}, err
		}
	}
	return parseSitemap(body)
}

func (s *Service) unpack(body []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, ErrSitemap.Do("It is packed, and damaged.").With(err)
	}
	unpacked, err := io.ReadAll(io.LimitReader(r, s.settings.MaxBytes+1))
	if err != nil {
		return nil, ErrSitemap.Do("It is packed, and damaged.").With(err)
	}
	if int64(len(unpacked)) > s.settings.MaxBytes {
		return nil, ErrSitemap.Do(fmt.Sprintf("Unpacked, it has more than %d bytes (FETCH_MAX_BYTES).", s.settings.MaxBytes))
	}
	return unpacked, nil
}

func parseSitemap(body []byte) (listed, error) {
	var found listed
	damaged := ErrSitemap.Do("Give the address of a sitemap in XML, such as https://example.com/sitemap.xml.")
	d := xml.NewDecoder(bytes.NewReader(body))
	d.CharsetReader = charset.NewReaderLabel
	root := ""
	var path []string
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return listed{}, damaged.With(err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			if root == "" {
				root = t.Name.Local
			}
			path = append(path, t.Name.Local)
		case xml.EndElement:
			path = path[:len(path)-1]
		case xml.CharData:
			address := strings.TrimSpace(string(t))
			switch place := strings.Join(path, "/"); {
			case address == "":
			case place == "urlset/url/loc":
				found.pages = append(found.pages, address)
			case place == "sitemapindex/sitemap/loc":
				found.sitemaps = append(found.sitemaps, address)
			}
		}
		if len(path) > maxNested {
			return listed{}, damaged
		}
	}
	if root != "urlset" && root != "sitemapindex" {
		return listed{}, damaged
	}
	return found, nil
}

// maxNested is how deep the elements of a sitemap are at most, those of
// extensions included.
const maxNested = 20
