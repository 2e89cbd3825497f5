package sandbox_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/portico-run/portico/internal/errs"
	"github.com/portico-run/portico/modules/sandbox"
)

func TestFencesAreTakenOff(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"print(1)":                           "print(1)",
		"```python\nprint(1)\n```":           "print(1)\n",
		"\n  ```py\nprint(1)\n```  \n":       "print(1)\n",
		"```\r\nls\r\n```\r\n":               "ls\r\n",
		"```js title=\"x\"\n1\n```":          "1\n",
		"```python\nprint(1)":                "print(1)",
		"```bash\ncat <<E\n```\nE\n```":      "cat <<E\n```\nE\n",
		"x = '''\n```python\n1\n```\n'''":    "x = '''\n```python\n1\n```\n'''",
		"```python print(1)``` \nprint(2)":   "```python print(1)``` \nprint(2)",
		"```":                                "```",
		"```python\n\n    indented()\n\n```": "\n    indented()\n\n",
	} {
		got, err := sandbox.PrepareCode(code)
		require.NoError(t, err, code)
		require.Equal(t, want, got, code)
	}
}

func TestCodeIsCheckedOnce(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]errs.Code{
		"": errs.Invalid, " \n": errs.Invalid, "```python\n```": errs.Invalid, "\xff": errs.Invalid, "a\x00": errs.Invalid,
		strings.Repeat("x", sandbox.MaxCode+1): errs.TooLarge,
	} {
		_, err := sandbox.PrepareCode(code)
		require.Equal(t, want, errs.CodeOf(err), "%.20q", code)
	}
}
