package configs

import (
	"strings"
	"time"
)

// Model is the language model that agents ask, or are the models.
type Model struct {
	// Name is the provider's name of the model; without one there are no agents. With
	// a File it is the name of the one that answers where none is named; empty for
	// the file's first.
	Name string `key:"name" env:"MODEL_NAME"`
	// File describes several models, in the place of the settings below about one.
	File string `key:"file" env:"MODEL_FILE"`
	// Protocol is how the provider is spoken with: responses, chat or messages.
	Protocol string `key:"protocol" env:"MODEL_PROTOCOL"`
	BaseURL  string `key:"baseUrl" env:"MODEL_BASE_URL"`
	APIKey   Secret `key:"apiKey" env:"MODEL_API_KEY"`
	// Headers are sent with every request, each as "Name: value", separated by
	// commas. They may hold keys.
	Headers Secret `key:"headers" env:"MODEL_HEADERS"`
	// MaxOutput is the most tokens of one answer; 0 leaves it to the provider.
	MaxOutput int `key:"maxOutput" env:"MODEL_MAX_OUTPUT"`
	// Retries is how often a refused request is sent again, Timeout the limit
	// of one attempt, IdleTimeout that of its silence.
	Retries     int           `key:"retries" env:"MODEL_RETRIES"`
	Timeout     time.Duration `key:"timeout" env:"MODEL_TIMEOUT"`
	IdleTimeout time.Duration `key:"idleTimeout" env:"MODEL_IDLE_TIMEOUT"`
	// InputPrice and OutputPrice are credits for a million tokens.
	InputPrice  Decimal `key:"inputPrice" env:"MODEL_INPUT_PRICE"`
	OutputPrice Decimal `key:"outputPrice" env:"MODEL_OUTPUT_PRICE"`
	// LogOutput writes the output of every response to the log, without the
	// credentials that can be recognised in it.
	LogOutput bool `key:"logOutput" env:"MODEL_LOG_OUTPUT"`
}

// HeaderMap is Headers by name.
func (m Model) HeaderMap() map[string]string {
	headers := map[string]string{}
	for h := range strings.SplitSeq(m.Headers.Reveal(), ",") {
		if name, value, found := strings.Cut(h, ":"); found {
			headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return headers
}
