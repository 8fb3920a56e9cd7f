// Package config has the defaults of controllers.
package config

import (
	"time"

	"github.com/go-logr/logr"
)

// Controller has the defaults of all controllers of a manager. Fields that are not described here have no effect.
type Controller struct {
	SkipNameValidation *bool
	// GroupKindConcurrency is the number of objects of a kind, such as "ReplicaSet.apps", that are reconciled at
	// once.
	GroupKindConcurrency map[string]int
	// MaxConcurrentReconciles is the number of objects that a controller reconciles at once.
	MaxConcurrentReconciles int
	CacheSyncTimeout        time.Duration
	RecoverPanic            *bool
	NeedLeaderElection      *bool
	EnableWarmup            *bool
	UsePriorityQueue        *bool
	Logger                  logr.Logger
	// ReconciliationTimeout is the time limit of a call.
	ReconciliationTimeout time.Duration
}
