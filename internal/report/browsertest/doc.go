// Package browsertest opens pages in Chromium and looks at what becomes of them,
// for the tests of whoever writes pages. Its functions exist with the build tag
// browser only, since they need the browser:
//
//	go test -tags browser ./internal/report/...
//
// Without a browser they fail, and do not skip: TEST_BROWSER names the program,
// else chromium is looked for in PATH.
package browsertest
