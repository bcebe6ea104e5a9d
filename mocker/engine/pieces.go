package engine

import "github.com/kvbench/kvbench/indexer"

// Pieces is a KV event that names blocks by their stretch of the requests' paths
// (mocker.Prompts) and their place in a request: a few pieces where an
// indexer.Event has hundreds of hashes. It says what that event says.
//
// The list is borrowed: whoever receives it reads it during the call.
type Pieces struct {
	// ID numbers the events of one rank from 0.
	ID   uint64
	Slot indexer.Slot
	Kind indexer.EventKind
	// HasParent says whether Parent counts. Stored only: false means that the first
	// block starts a prompt.
	HasParent bool
	// Parent is the one block that the first stored one follows.
	Parent Piece
	// Blocks are the blocks. For Stored, each follows the one before.
	Blocks []Piece
}

// Piece is successive blocks of a stretch, which follow each other in a request.
type Piece struct {
	// Stretch is the ID of the stretch.
	Stretch int32
	// From and To are the first block and the one behind the last, counted from
	// the start of a request.
	From, To int32
}

// Len returns the number of blocks.
func (p Piece) Len() int { return int(p.To - p.From) }

// PieceReader is a Listener that can take KV events in pieces. Only engines that
// keep their blocks by stretches have such; package vllm's do.
type PieceReader interface {
	Listener
	// ReadsPieces says whether it wants them. If it does, Pieces is called in the
	// place of Event, unless it reads blocks as well (BlockReader): then Event is
	// called first and Pieces says the same once more.
	ReadsPieces() bool
	// Pieces is a KV event. Its slot is 0; it is borrowed for the call.
	Pieces(at int64, ev *Pieces)
}

// PiecesTo returns the listener as one of pieces, nil if it wants none.
func PiecesTo(l Listener) PieceReader {
	if r, ok := l.(PieceReader); ok && r.ReadsPieces() {
		return r
	}
	return nil
}
