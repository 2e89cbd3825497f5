package objectstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

// S3Config says which bucket to use. Endpoint may be empty for AWS itself, and
// both keys for the credentials of the machine: its environment, its profile
// or its role.
type S3Config struct {
	Endpoint, Region, Bucket string
	AccessKey, SecretKey     string
	PathStyle                bool // what MinIO and most other servers want
	// Patience is how long an answer, and each further piece of an object, may
	// take; 30 s if it is zero.
	Patience time.Duration
}

const (
	patience = 30 * time.Second
	// slowest is how many bytes a second an object is sent with at least.
	slowest = 256 << 10
)

// errSilent is why a request ended that the server did not answer in time.
var errSilent = errors.New("the object storage does not answer")

// S3 keeps objects in a bucket.
type S3 struct {
	client   *s3.Client
	bucket   string
	patience time.Duration
}

// NewS3 returns a store over a bucket. It does not connect.
func NewS3(ctx context.Context, c S3Config) (*S3, error) {
	keys, err := c.credentials(ctx)
	if err != nil {
		return nil, err
	}
	options := s3.Options{
		Region: c.Region, UsePathStyle: c.PathStyle, Credentials: keys,
		// Servers other than AWS do not all know the newer checksums.
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
	}
	if c.Endpoint != "" {
		options.BaseEndpoint = aws.String(c.Endpoint)
	}
	return &S3{client: s3.New(options), bucket: c.Bucket, patience: cmp.Or(c.Patience, patience)}, nil
}

func (c S3Config) credentials(ctx context.Context) (aws.CredentialsProvider, error) {
	if c.AccessKey != "" {
		return credentials.NewStaticCredentialsProvider(c.AccessKey, c.SecretKey, ""), nil
	}
	machine, err := config.LoadDefaultConfig(ctx, config.WithRegion(c.Region))
	if err != nil {
		return nil, fmt.Errorf("S3 credentials of this machine: %w", err)
	}
	return machine.Credentials, nil
}

// Put writes an object; S3 replaces it in one step.
func (s *S3) Put(ctx context.Context, key string, body io.ReadSeeker, contentType string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	size, err := sizeOf(body)
	if err != nil {
		return fmt.Errorf("put object %q: %w", key, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.patience+time.Duration(size/slowest)*time.Second, errSilent)
	defer cancel()
	_, err = s.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &s.bucket, Key: &key, Body: body, ContentType: &contentType,
	})
	if err != nil {
		return fmt.Errorf("put object %q: %w", key, why(ctx, err))
	}
	return nil
}

// sizeOf is how much of body is left to read.
func sizeOf(body io.Seeker) (int64, error) {
	from, err := body.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, err
	}
	end, err := body.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	_, err = body.Seek(from, io.SeekStart)
	return end - from, err
}

// why adds to an error that the server was silent, where that is its reason.
func why(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSilent) {
		return errors.Join(errSilent, err)
	}
	return err
}

// Get opens an object.
func (s *S3) Get(ctx context.Context, key string, from int64) (io.ReadCloser, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	in := s3.GetObjectInput{Bucket: &s.bucket, Key: &key}
	if from > 0 {
		in.Range = aws.String(fmt.Sprintf("bytes=%d-", from))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	silence := time.AfterFunc(s.patience, func() { cancel(errSilent) })
	out, err := s.client.GetObject(ctx, &in)
	if err != nil {
		err = why(ctx, err)
		silence.Stop()
		cancel(nil)
	}
	if refused, ok := errors.AsType[smithy.APIError](err); ok && refused.ErrorCode() == "InvalidRange" {
		return http.NoBody, nil
	}
	if _, missing := errors.AsType[*types.NoSuchKey](err); missing {
		return nil, fmt.Errorf("get object %q: %w", key, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("get object %q: %w", key, err)
	}
	silence.Stop()
	return &pieces{ReadCloser: out.Body, ctx: ctx, cancel: cancel, silence: silence, patience: s.patience}, nil
}

// pieces is the body of an object whose reader does not wait forever for the
// next piece. Time in which nobody reads does not count.
type pieces struct {
	io.ReadCloser

	ctx      context.Context //nolint:containedctx // of the request that the body belongs to
	cancel   context.CancelCauseFunc
	silence  *time.Timer
	patience time.Duration
}

func (p *pieces) Read(b []byte) (int, error) {
	p.silence.Reset(p.patience)
	defer p.silence.Stop()
	n, err := p.ReadCloser.Read(b)
	if err != nil && err != io.EOF { //nolint:errorlint // readers return io.EOF as it is
		err = why(p.ctx, err)
	}
	return n, err
}

func (p *pieces) Close() error {
	defer p.cancel(nil)
	return p.ReadCloser.Close()
}

// List reads every page of names.
func (s *S3) List(ctx context.Context, prefix string) ([]string, error) {
	var keys []string
	pages := s3.NewListObjectsV2Paginator(s.client, &s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: &prefix})
	for pages.HasMorePages() {
		page, err := s.page(ctx, pages)
		if err != nil {
			return nil, fmt.Errorf("list objects below %q: %w", prefix, err)
		}
		for _, o := range page.Contents {
			keys = append(keys, aws.ToString(o.Key))
		}
	}
	slices.Sort(keys)
	return keys, nil
}

func (s *S3) page(ctx context.Context, pages *s3.ListObjectsV2Paginator) (*s3.ListObjectsV2Output, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.patience, errSilent)
	defer cancel()
	page, err := pages.NextPage(ctx)
	if err != nil {
		return nil, why(ctx, err)
	}
	return page, nil
}

// Delete removes an object.
func (s *S3) Delete(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.patience, errSilent)
	defer cancel()
	if _, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: &key}); err != nil {
		return fmt.Errorf("delete object %q: %w", key, why(ctx, err))
	}
	return nil
}
