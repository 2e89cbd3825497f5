package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/portico-run/portico/dev/instance"
	"github.com/portico-run/portico/internal/ids"
	"github.com/portico-run/portico/internal/objectstore"
)

// place is a database and a bucket.
type place struct {
	dir      string
	database string
	drop     func(context.Context) error
	bucket   string
	buckets  *s3.Client
	objects  objectstore.Store
}

func storage(name string) string { return os.Getenv("PORTICO_TEST_S3_" + name) }

// newPlace makes an empty database and an empty bucket.
func newPlace(ctx context.Context, dir string) (*place, error) {
	if storage("ENDPOINT") == "" {
		return nil, errors.New("PORTICO_TEST_S3_ENDPOINT is not set: use make drill")
	}
	p := &place{dir: dir, bucket: "drill-" + strings.ToLower(ids.New("x")[2:])}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	p.buckets = s3.New(s3.Options{
		Region: storage("REGION"), BaseEndpoint: aws.String(storage("ENDPOINT")), UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(storage("ACCESS_KEY"), storage("SECRET_KEY"), ""),
	})
	if _, err := p.buckets.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &p.bucket}); err != nil {
		return nil, err
	}
	var err error
	if p.objects, err = objectstore.NewS3(ctx, objectstore.S3Config{
		Endpoint: storage("ENDPOINT"), Region: storage("REGION"), Bucket: p.bucket, AccessKey: storage("ACCESS_KEY"), SecretKey: storage("SECRET_KEY"), PathStyle: true,
	}); err != nil {
		return nil, err
	}
	p.database, p.drop, err = instance.NewDatabase(ctx)
	return p, err
}

// start starts a server there.
func (p *place) start(ctx context.Context, program string, settings []string) (*instance.Server, error) {
	return instance.Start(ctx, instance.Config{Program: program, Dir: p.dir, Database: p.database, Env: append([]string{
		"OBJECT_STORAGE_DRIVER=s3", "S3_ENDPOINT=" + storage("ENDPOINT"), "S3_REGION=" + storage("REGION"), "S3_BUCKET=" + p.bucket,
		"S3_ACCESS_KEY=" + storage("ACCESS_KEY"), "S3_SECRET_KEY=" + storage("SECRET_KEY"),
	}, settings...)})
}

// destroy leaves neither the database nor the bucket.
func (p *place) destroy(ctx context.Context) error {
	keys, err := p.objects.List(ctx, "")
	if err != nil {
		return errors.Join(err, p.drop(ctx))
	}
	for _, key := range keys {
		err = errors.Join(err, p.objects.Delete(ctx, key))
	}
	_, gone := p.buckets.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &p.bucket})
	return errors.Join(err, gone, p.drop(ctx))
}

// dump backs the database up: one state of it, while servers work.
func (p *place) dump(ctx context.Context, into string) error {
	if err := os.MkdirAll(filepath.Dir(into), 0o700); err != nil {
		return err
	}
	return command(ctx, "pg_dump", "--format=custom", "--no-owner", "--file="+into, p.database)
}

// restore reads what dump wrote.
func (p *place) restore(ctx context.Context, from string) error {
	return command(ctx, "pg_restore", "--exit-on-error", "--no-owner", "--dbname="+p.database, from)
}

func command(ctx context.Context, name string, arguments ...string) error {
	if out, err := exec.CommandContext(ctx, name, arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// copyObjects backs the bucket up in a folder.
func (p *place) copyObjects(ctx context.Context, into string) (int, error) {
	folder, err := objectstore.NewFolder(into)
	if err != nil {
		return 0, err
	}
	keys, err := p.objects.List(ctx, "")
	if err != nil {
		return 0, err
	}
	for _, key := range keys {
		if err := copyObject(ctx, p.objects, folder, key); err != nil {
			return 0, err
		}
	}
	return len(keys), nil
}

// putObjects fills the bucket from a folder.
func (p *place) putObjects(ctx context.Context, from string) (int, error) {
	folder, err := objectstore.NewFolder(from)
	if err != nil {
		return 0, err
	}
	keys, err := folder.List(ctx, "")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	for _, key := range keys {
		if err == nil {
			err = copyObject(ctx, folder, p.objects, key)
		}
	}
	return len(keys), err
}

// maxObject is the largest object that is copied: those of the drill are small.
const maxObject = 16 << 20

func copyObject(ctx context.Context, from, to objectstore.Store, key string) error {
	content, err := objectstore.Read(ctx, from, key, maxObject)
	if errors.Is(err, objectstore.ErrNotFound) {
		return nil // deleted meanwhile, with its row
	}
	if err != nil {
		return err
	}
	return to.Put(ctx, key, strings.NewReader(string(content)), "application/octet-stream")
}
