package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

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
}

// S3 keeps objects in a bucket.
type S3 struct {
	client *s3.Client
	bucket string
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
	return &S3{client: s3.New(options), bucket: c.Bucket}, nil
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
	_, err := s.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &s.bucket, Key: &key, Body: body, ContentType: &contentType,
	})
	if err != nil {
		return fmt.Errorf("put object %q: %w", key, err)
	}
	return nil
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
	out, err := s.client.GetObject(ctx, &in)
	if refused, ok := errors.AsType[smithy.APIError](err); ok && refused.ErrorCode() == "InvalidRange" {
		return http.NoBody, nil
	}
	if _, missing := errors.AsType[*types.NoSuchKey](err); missing {
		return nil, fmt.Errorf("get object %q: %w", key, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("get object %q: %w", key, err)
	}
	return out.Body, nil
}

// List reads every page of names.
func (s *S3) List(ctx context.Context, prefix string) ([]string, error) {
	var keys []string
	pages := s3.NewListObjectsV2Paginator(s.client, &s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: &prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
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

// Delete removes an object.
func (s *S3) Delete(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if _, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: &key}); err != nil {
		return fmt.Errorf("delete object %q: %w", key, err)
	}
	return nil
}
