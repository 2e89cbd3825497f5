package oauth

// Rows are the tables of this package, as they are written.
func Rows() []any {
	return []any{serverGrant{}, serverFlow{}, toolsetGrant{}, toolsetFlow{}, clientRow{}}
}

type serverGrant struct {
	Row grantRow `gorm:"embedded"`

	ServerPK int64
}

func (serverGrant) TableName() string { return "mcp_credentials" }

type serverFlow struct {
	Row flowRow `gorm:"embedded"`

	ServerPK int64
}

func (serverFlow) TableName() string { return "mcp_authorizations" }

type toolsetGrant struct {
	Row grantRow `gorm:"embedded"`

	ToolsetKey string
}

func (toolsetGrant) TableName() string { return "toolset_grants" }

type toolsetFlow struct {
	Row flowRow `gorm:"embedded"`

	ToolsetKey string
}

func (toolsetFlow) TableName() string { return "toolset_authorizations" }
