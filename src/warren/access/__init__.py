"""Who may do what: users, their passwords, permissions and limits."""
