// Package recorded holds runs that documents of this repository quote, with the
// scripts that made them. Its test writes the tables and keeps them true.
package recorded
