// Package buildinfo says which kvbench is running. It reads what the Go tool
// put into the binary and invents nothing.
package buildinfo

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime/debug"
)

// Info describes the running binary. What the build does not know is empty.
type Info struct {
	Version  string // module version, "(devel)" for a build from a checkout
	Commit   string // full hash
	Modified bool   // the checkout had changes
	// CommitTime is when the commit was made, in RFC 3339.
	CommitTime string
	Go         string   // e.g. "go1.26.1"
	Settings   []string // "key=value" of the build, as the Go tool records them
}

// Read returns the facts of the running binary.
func Read() Info {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return Info{}
	}
	info := Info{Version: b.Main.Version, Go: b.GoVersion, Settings: []string{}}
	for _, s := range b.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Commit = s.Value
		case "vcs.time":
			info.CommitTime = s.Value
		case "vcs.modified":
			info.Modified = s.Value == "true"
		}
		info.Settings = append(info.Settings, s.Key+"="+s.Value)
	}
	return info
}

// SHA256 returns the hash of the running executable in hex.
func SHA256() (string, error) {
	// The link still leads to the running file after it was replaced on disk.
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", fmt.Errorf("hash of the running binary: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("hash of the running binary: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
