package upload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
)

// defaultRegion is what servers other than AWS accept as a region.
const defaultRegion = "us-east-1"

// S3Config says which bucket and with which key.
type S3Config struct {
	// Endpoint is the server's URL; empty means AWS.
	Endpoint  string
	Region    string // empty means us-east-1
	Bucket    string
	AccessKey string
	SecretKey string
}

// S3 is a Store in a bucket.
type S3 struct {
	client *s3.Client
	bucket string
}

// NewS3 returns the bucket's store; it does not connect. Buckets are addressed
// by path when there is an endpoint, which every S3 server understands.
func NewS3(c S3Config) (*S3, error) {
	var missing []string
	for _, required := range []struct{ name, value string }{
		{"bucket", c.Bucket}, {"access key", c.AccessKey}, {"secret key", c.SecretKey},
	} {
		if required.value == "" {
			missing = append(missing, required.name)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("not enough to reach S3: no %s", strings.Join(missing, ", no "))
	}
	o := s3.Options{
		Region:      c.Region,
		Credentials: credentials.NewStaticCredentialsProvider(c.AccessKey, c.SecretKey, ""),
	}
	if o.Region == "" {
		o.Region = defaultRegion
	}
	if c.Endpoint != "" {
		o.BaseEndpoint = aws.String(c.Endpoint)
		o.UsePathStyle = true
	}
	return &S3{client: s3.New(o), bucket: c.Bucket}, nil
}

// List returns the keys that start with prefix.
func (s *S3) List(ctx context.Context, prefix string) ([]string, error) {
	pages := s3.NewListObjectsV2Paginator(s.client, &s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: &prefix})
	var keys []string
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list bucket %s: %w", s.bucket, err)
		}
		for _, object := range page.Contents {
			keys = append(keys, aws.ToString(object.Key))
		}
	}
	return keys, nil
}

// Get reads an object.
func (s *S3) Get(ctx context.Context, key string) ([]byte, error) {
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: &key})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	b, err := io.ReadAll(out.Body)
	if err = errors.Join(err, out.Body.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return b, nil
}

// maxConflicts is how often a write is begun that met another of the same key.
const maxConflicts = 5

// Create writes an object unless the key is taken.
func (s *S3) Create(ctx context.Context, key string, content []byte) error {
	var err error
	for range maxConflicts {
		_, err = s.client.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &s.bucket, Key: &key, Body: bytes.NewReader(content), IfNoneMatch: aws.String("*"),
		})
		refusal, refused := errors.AsType[smithy.APIError](err)
		if refused && refusal.ErrorCode() == "PreconditionFailed" {
			err = ErrExists
		}
		// AWS does not say who wins while both are under way.
		if !refused || refusal.ErrorCode() != "ConditionalRequestConflict" {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	return nil
}
